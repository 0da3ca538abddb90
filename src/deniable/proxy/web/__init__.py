"""The proxy over HTTP, in one process or several."""

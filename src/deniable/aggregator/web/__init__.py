"""The aggregator over HTTP: its interface, who may use it, and the stream of news."""

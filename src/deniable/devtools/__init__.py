"""Servers for trying things out on one machine; never for production."""

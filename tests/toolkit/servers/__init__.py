"""Servers that tests start and share."""

"""Attacks on what is deployed: a running service, and the figures it has published."""

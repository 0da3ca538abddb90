"""The collector in front of a proxy, and the link between the two."""

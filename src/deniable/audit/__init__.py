"""Attacks that run: distinguishing games that bound a privacy loss from below, and fail where the bound exceeds the claim."""

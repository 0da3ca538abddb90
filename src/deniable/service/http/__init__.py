"""Serving HTTP: the server and its hot path, limits, rules for every request, and its
description."""

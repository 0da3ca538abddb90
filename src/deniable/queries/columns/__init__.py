"""Columns of a query: their ranges and patterns, and the search for an answer's bucket."""

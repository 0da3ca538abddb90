"""Analysts' SQL: what it may do, and the confined processes in which it is compiled and run."""

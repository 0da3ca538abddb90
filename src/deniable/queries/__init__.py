"""Queries: their buckets, schedules and versions, and the signatures by which a device trusts
them."""

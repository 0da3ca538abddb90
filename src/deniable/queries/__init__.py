"""What is asked: queries, their buckets, schedules and versions, and the signatures that make a device trust them."""

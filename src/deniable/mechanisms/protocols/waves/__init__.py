"""Numbers from an interval, reported as a point that is probably near."""

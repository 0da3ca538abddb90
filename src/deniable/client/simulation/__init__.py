"""Many devices in one process, by the code that a single device runs."""

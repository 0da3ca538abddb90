"""Independent references that tests compare with."""

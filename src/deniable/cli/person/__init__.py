"""Commands for the person whose data it is."""

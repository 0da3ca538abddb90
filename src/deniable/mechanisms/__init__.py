"""How one value becomes a report, and the exact channel between the two: one protocol per file."""

"""Commands for the analyst, who asks."""

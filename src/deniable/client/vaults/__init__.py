"""The vault: a person's own data on their device, how it is recorded, and what its owner grants."""

"""What attacks in tests: hostile peers, damaged bytes, and the leak hunter."""

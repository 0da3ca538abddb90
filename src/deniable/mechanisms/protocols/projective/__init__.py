"""Projective geometry response: short reports for large domains at every epsilon."""

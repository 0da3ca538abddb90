"""Rehearsals: a query on simulated people, through the deployed code, with faults and liars."""

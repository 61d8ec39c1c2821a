"""Compares a mirror with its changelog, and the index with the mirror."""

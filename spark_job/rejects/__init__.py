"""Rejects: bad rows of a changelog, recorded in a separate table exactly once."""

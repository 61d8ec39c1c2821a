"""Verification: the mirror against its changelog, the key index against the mirror."""

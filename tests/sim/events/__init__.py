"""Forged and mangled events, which must have no effect."""

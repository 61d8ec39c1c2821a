"""Forged and mangled events: none of them may do anything."""

"""Forged and mangled events: none of them may have an effect."""

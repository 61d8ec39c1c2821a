"""Explaining a key: where its row is, which events made it, and why others lost."""

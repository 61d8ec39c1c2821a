"""Mutates files of mirror, index and changelog: a merge repairs them or fails, and never writes a wrong row."""

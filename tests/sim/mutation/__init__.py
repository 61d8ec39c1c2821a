"""Mutates files of mirror, index and changelog: the merge repairs them or stops with an error, never a wrong row."""

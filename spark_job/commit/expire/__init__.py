"""Decide which snapshots expire, and delete the files that only they reference. Merges and `maintain expire` use it."""

"""Commit one snapshot with rows, deletes, index and cursor; expire old snapshots."""

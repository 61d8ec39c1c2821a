"""Runs work in this process, in one Spark task, or sharded by key range."""

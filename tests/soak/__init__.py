"""Campaigns of random faults, of any duration; see `python -m tests.soak --help`."""

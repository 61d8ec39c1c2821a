"""Campaigns of random faults for as long as you like; see `python -m tests.soak --help`."""

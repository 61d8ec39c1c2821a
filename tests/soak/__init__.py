"""Campaigns of random trouble for as long as told; see `python -m tests.soak --help`."""

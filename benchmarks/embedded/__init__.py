"""Runs the embedded trigger as users do and measures it externally: a lake on disk, a writer and a reader."""

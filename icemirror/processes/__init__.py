"""Processes: identity, import path, run request, crash points for tests."""

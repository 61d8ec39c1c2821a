"""Simulates triggers, launchers, workers and stores in random interleavings, with crashes at every effect."""

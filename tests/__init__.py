"""Tests. Each folder is named for what must be running for its tests."""

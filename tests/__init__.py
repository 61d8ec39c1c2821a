"""Tests, in folders that say what must be running for them."""

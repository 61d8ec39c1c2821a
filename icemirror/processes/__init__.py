"""Operating-system processes: identity, import path, crash points for tests."""

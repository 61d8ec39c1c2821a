"""The row of a key, its events, and why each won or lost."""

"""Read a changelog: its history, its files, the meaning of its columns, and its events."""

"""The key index: its on-disk format, lookups, and merges of segments. See docs/reference/key-index.md."""

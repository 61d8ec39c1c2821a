"""The registered tables, and the table that a hint belongs to."""

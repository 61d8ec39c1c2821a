"""A mirror that is built out of sight: the table, its columns and its files."""

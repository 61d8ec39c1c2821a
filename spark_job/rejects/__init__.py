"""Bad rows of a changelog, put aside into a table of their own, exactly once."""

"""How the columns of a mirror follow those of its changelog, by field id."""

"""How the columns of a mirror follow those of its changelog, and how values go from one to the other."""

"""What lies between a mirror and its changelog, what of it comes next, and what is refused before anything is read."""

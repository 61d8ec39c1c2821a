"""Write data files and deletes of the mirror."""

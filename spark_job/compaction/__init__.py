"""Small data files are put together, in commits of their own that change no row."""

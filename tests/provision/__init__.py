"""What the tests download or build once: kept in the user's cache, shared by all clones."""

"""Event formats: parse what catalogs, storage and platforms send, and return hints."""

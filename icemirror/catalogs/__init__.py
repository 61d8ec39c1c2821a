"""Facts from a catalog's properties, without opening the catalog."""

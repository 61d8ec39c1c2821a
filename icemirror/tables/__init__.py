"""Table identity, cursor and the Iceberg properties of a mirror."""

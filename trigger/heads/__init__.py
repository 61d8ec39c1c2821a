"""Head pointers: where a table's current metadata is, asked of the catalog alone. No data access, nothing heavy."""

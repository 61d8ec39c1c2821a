"""Head pointers of changelogs, read from their catalogs without PyIceberg and without touching data."""

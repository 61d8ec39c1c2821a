"""Values that an event does not bring: those that did not change, and those of rows that are deleted but kept."""

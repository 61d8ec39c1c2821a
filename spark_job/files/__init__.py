"""Files, whatever they hold: read once, many at a time, and removed where nothing came of them."""

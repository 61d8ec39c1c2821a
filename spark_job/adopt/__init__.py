"""An existing table becomes the mirror."""

"""icemirror: clean Iceberg mirror tables, kept current from append-only changelog tables."""

__version__ = "0.1.0"

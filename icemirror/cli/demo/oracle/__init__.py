"""The independent oracles: what a mirror must contain, computed twice without code of the product."""

"""The demo: a shop whose changelogs keep changing, and the oracles that verify its mirrors."""

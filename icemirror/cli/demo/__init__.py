"""The demo: a shop whose changelogs keep changing, and the oracles that judge its mirrors."""

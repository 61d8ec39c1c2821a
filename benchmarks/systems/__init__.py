"""The measured systems: one file per system, all with the same protocol."""

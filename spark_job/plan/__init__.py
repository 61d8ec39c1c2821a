"""Decides what to do next with a table. Writes nothing."""

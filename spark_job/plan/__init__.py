"""Decides what to do next with a table. Pure: reads metadata, writes nothing."""

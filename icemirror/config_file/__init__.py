"""Reads the YAML configuration file into Settings, and explains what is wrong with it."""

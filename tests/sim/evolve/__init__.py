"""Simulates changelogs whose columns change between commits, in one process, and compares them by field id."""

"""Changelogs whose columns change between commits, merged in one process, judged by field ids."""

"""Simulates changelogs whose columns change between commits, in one process, judged by field ids."""

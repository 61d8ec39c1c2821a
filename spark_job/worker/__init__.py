"""A launched job: the worker loop, its arguments, and the tables that it serves."""

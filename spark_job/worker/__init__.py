"""A launched job: the worker loop, the tables it serves, and the operations that commands share with it."""

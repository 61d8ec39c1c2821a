"""Support for all tests: optional dependencies, ids of parametrized values, and stand-ins."""

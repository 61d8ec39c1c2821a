"""Simulates the whole merge in one process without Spark: seeded changes, faults and foreign writes."""

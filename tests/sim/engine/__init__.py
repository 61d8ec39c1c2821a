"""The whole merge in one process without Spark, through seeded schedules of changes, faults and other writers."""

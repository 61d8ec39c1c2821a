"""The workloads of the systems: one file per kind."""

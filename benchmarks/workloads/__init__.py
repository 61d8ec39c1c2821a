"""What the systems are given to do: one file for each kind of workload."""

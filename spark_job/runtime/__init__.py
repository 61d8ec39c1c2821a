"""How work runs: in this process, or on Spark."""

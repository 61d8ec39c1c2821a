"""The parts of the benchmark; each can run separately."""

"""The parts of the benchmark, each of which can be run alone."""

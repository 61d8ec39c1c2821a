"""`python -m benchmarks`: icemirror and its peers, on this machine. See docs/explanation/performance.md."""

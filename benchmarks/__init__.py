"""`python -m benchmarks`: measures icemirror and its peers on this machine. See docs/explanation/performance.md."""

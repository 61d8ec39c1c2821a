"""`python -m benchmarks`: icemirror beside its peers, on this machine, in one run. See docs/performance.md."""

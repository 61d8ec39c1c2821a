"""Compares the import cost of a hand-written protocol with the library that it replaces.

    .venv/bin/python -m benchmarks.import_costs

Both sides are imported alternately in fresh processes; the result is the median.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

RUNS = 15

# Name, our module, and the library that it replaces.
PAIRS = (
    ("Thrift client of the Hive metastore", "trigger.heads.thrift", "hive_metastore.ThriftHiveMetastore"),
    ("HTTP server of the status page", "icemirror.http.server", "aiohttp.web"),
)

_PROBE = """
import resource, sys, time
began = time.perf_counter()
__import__(sys.argv[1])
seconds = time.perf_counter() - began
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(sys.modules))
"""


def probe(module: str) -> tuple[float, float, int]:
    """Import a module in a fresh process; return seconds, peak memory in KiB, and the number of loaded modules."""
    command = [sys.executable, "-c", _PROBE, module]
    seconds, peak, modules = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.split()
    return float(seconds), float(peak), int(modules)


def main() -> None:
    """Print a line for each pair."""
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, median of {RUNS} runs")
    for name, ours, library in PAIRS:
        results = [(probe(ours), probe(library)) for _ in range(RUNS)]
        (our_seconds, our_peak, our_modules), (their_seconds, their_peak, their_modules) = (
            tuple(statistics.median(column) for column in zip(*side, strict=True))
            for side in zip(*results, strict=True)
        )
        print(
            f"{name}: {ours} {1000 * our_seconds:.0f} ms, {our_peak / 1024:.0f} MiB, {our_modules:.0f} modules; "
            f"{library} {1000 * their_seconds:.0f} ms, {their_peak / 1024:.0f} MiB, {their_modules:.0f} modules "
            f"({their_seconds / our_seconds:.1f} x the time)"
        )


if __name__ == "__main__":
    main()

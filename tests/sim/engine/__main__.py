"""Tells the story of a seed: `python -m tests.sim.engine 17`."""

from __future__ import annotations

import argparse

from tests.sim.engine.world import run_seed


def main() -> None:
    """Runs one seed and prints what happened in it."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.engine", description=__doc__)
    parser.add_argument("seed", type=int)
    options = parser.parse_args()
    outcome = run_seed(options.seed)
    print("\n".join(outcome.story))
    print(f"seed {options.seed}: {outcome.snapshots} snapshots of the mirror, all as they should be")


main()

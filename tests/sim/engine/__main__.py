"""Runs one seed and prints its story: `python -m tests.sim.engine 17`."""

from __future__ import annotations

import argparse

from tests.sim.engine.planted import PLANTED
from tests.sim.engine.story import run_seed


def main() -> None:
    """Run one seed and print what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.engine", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mistake", choices=sorted(PLANTED), help="with this mistake planted in the product")
    options = parser.parse_args()
    outcome = run_seed(options.seed, PLANTED[options.mistake] if options.mistake else None)
    print("\n".join(outcome.story))
    print(f"seed {options.seed}: {outcome.snapshots} snapshots of the mirror, all correct")


main()

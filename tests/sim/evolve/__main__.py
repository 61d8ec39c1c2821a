"""Print the story of a seed: `python -m tests.sim.evolve 17`."""

from __future__ import annotations

import argparse

from tests.sim.evolve.bugs import BUGS
from tests.sim.evolve.world import run_seed


def main() -> None:
    """Run one seed and print what happened in it."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.evolve", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--mistake", choices=sorted(BUGS), help="with this mistake planted in the product")
    options = parser.parse_args()
    outcome = run_seed(options.seed, BUGS[options.mistake] if options.mistake else None)
    print("\n".join(outcome.story))
    print(f"seed {options.seed}: {outcome.snapshots} snapshots of the mirror, all as they should be")


main()

"""Runs one seed and prints its trace: `python -m tests.sim.evolve 17`."""

from __future__ import annotations

import argparse

from tests.sim.evolve.planted_defects import PLANTED
from tests.sim.evolve.world import run_seed


def main() -> None:
    """Run one seed and print its trace."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.evolve", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--defect", choices=sorted(PLANTED), help="with this defect planted in the product")
    options = parser.parse_args()
    outcome = run_seed(options.seed, PLANTED[options.defect] if options.defect else None)
    print("\n".join(outcome.trace))
    print(f"seed {options.seed}: {outcome.snapshots} snapshots of the mirror, all correct")


main()

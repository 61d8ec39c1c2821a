"""Runs one seed and reports the outcome: `python -m tests.sim.mutation 17`."""

from __future__ import annotations

import argparse

from tests.sim.mutation.planted_defects import PLANTED
from tests.sim.mutation.run import run_seed


def main() -> None:
    """Run one seed and print its trace and outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--defect", choices=sorted(PLANTED), help="with this defect planted in the product")
    options = parser.parse_args()
    outcome = run_seed(options.seed, PLANTED[options.defect] if options.defect else None)
    print("\n".join(outcome.trace))
    print(f"seed {options.seed}: {outcome.ended}")


if __name__ == "__main__":
    main()

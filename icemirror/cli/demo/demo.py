"""`icemirror demo`: changelogs, live changes, a watch, Spark, mirrors and proof, on this machine."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".demo"),
    show_default=True,
    help="Where the data go; made anew, unless kept.",
)
@click.option("--keep", is_flag=True, help="Continue with the data of the last time.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="How long changes keep coming after the first merge.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=100),
    default=100_000,
    show_default=True,
    help="Rows of each table at the start.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same changes.")
def demo(directory: Path, keep: bool, seconds: float, rows: int, seed: int) -> int:
    """See it work, end to end, on this machine.

    Makes three changelogs of a small shop, keeps committing changes to them (late ones and repetitions among
    them), lets `icemirror watch` launch Spark and keep the mirrors current, and shows it live. At the end two
    independent oracles say whether the mirrors are right.
    """
    from icemirror.cli.demo.run import run_demo
    from icemirror.cli.demo.workspace import Marker

    return int(run_demo(directory, keep=keep, seconds=seconds, wanted=Marker(seed=seed, rows=rows)))

"""`icemirror demo`: changelogs, live changes, the trigger, Spark, mirrors and verification, on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from icemirror.cli.terminal.text import examples


@click.command(epilog=examples("icemirror demo", "icemirror demo --dir /tmp/demo --rows 1000 --seconds 10"))
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".demo"),
    show_default=True,
    help="Folder of the data; recreated unless --keep is given.",
)
@click.option("--keep", is_flag=True, help="Continue with the data of the last run.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="How long changes continue after the first merge.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=100),
    default=100_000,
    show_default=True,
    help="Initial rows of each table.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="The same seed generates the same changes."
)
def demo(directory: Path, keep: bool, seconds: float, rows: int, seed: int) -> int:
    """Run icemirror end to end on this machine.

    Creates the changelogs of a small shop and keeps committing changes, including late and duplicate events.
    `icemirror watch` launches Spark and keeps the mirrors current; the terminal shows it live. At the end two
    independent oracles verify the mirrors.
    """
    from icemirror.cli.demo.run import run_demo
    from icemirror.cli.demo.workspace import DemoMarker

    return int(run_demo(directory, keep=keep, seconds=seconds, new_marker=DemoMarker(seed=seed, rows=rows)))

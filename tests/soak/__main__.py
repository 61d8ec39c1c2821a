"""The command line: `python -m tests.soak`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tests.cache import cache_directory
from tests.sim.engine.bugs import BUGS
from tests.sim.engine.soak import first_seed_that_finds
from tests.sim.protocol.soak import explore
from tests.soak.campaign import Campaign
from tests.soak.catalogue import CAMPAIGNS
from tests.soak.publish import FIGURES, publish
from tests.soak.report import Report
from tests.soak.worker import Unready, tell_for

_SECONDS = 1800.0
_ALL = ("protocol", "planted", *CAMPAIGNS)
_PUBLISH = "publish"
_LIST = "\n".join(f"{one.name:<10} {one.about}" for one in CAMPAIGNS.values())


@click.command(
    help=f"""Runs CAMPAIGNS, all by default, and ends with an error if anything did not hold.

\b
protocol   the model check of the trigger's protocol at all its bounds, and its planted bugs
planted    looks for a seed of `engine` that finds each planted mistake
{_LIST}
publish    runs nothing, but writes docs/reliability.md

Seeds are counted on from where the last run stopped. One that fails prints itself and is kept in the report; the next
run tries it again first."""
)
@click.argument("campaigns", nargs=-1, type=click.Choice((*_ALL, _PUBLISH)))
@click.option(
    "--seconds", type=float, default=_SECONDS, show_default=True, help="For each campaign of seeds."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    default=cache_directory() / "soak.json",
    help="Where the counts are kept. Default: in the user's cache.",
)
def main(campaigns: Sequence[str], seconds: float, report: Path) -> None:
    """One after the other; see the help."""
    kept = Report.load(report, FIGURES)
    good = True
    for name in campaigns or _ALL:
        match name:
            case "protocol":
                good = _check_protocol() and good
            case "planted":
                good = _hunt_planted(kept) and good
            case "publish":
                publish(kept)
            case _:
                good = soak(CAMPAIGNS[name], kept, seconds) and good
    for name, total in kept.totals.items():
        click.echo("\n".join([f"{name}:", *(f"  {line}" for line in total.lines())]))
    click.echo(f"all runs so far: {report}")
    sys.exit(0 if good else 1)


def soak(campaign: Campaign, report: Report, seconds: float) -> bool:
    """Seeds until the time is over; False if any failed."""
    total, good = report.of(campaign.name), True
    try:
        first = max(total.next_seed, campaign.first)
        for told in tell_for(campaign, seconds, first, tuple(total.failed)):
            total.add(told)
            report.save()
            if told.why:
                good = False
                click.echo(f"{told.why}\nFAILED: {campaign.command} {told.seed}")
    except Unready as error:
        click.echo(f"{campaign.name} was left out: {error}")
        return os.environ.get("CI") != "true"
    return good


def _check_protocol() -> bool:
    good = True
    for explored in explore():
        click.echo(explored)
        good = good and not explored.wrong
    return good


def _hunt_planted(report: Report) -> bool:
    """Every planted mistake that no run has found yet; False if one stays hidden."""
    for name in sorted(BUGS):
        if report.planted.get(name) is None:
            report.planted[name] = first_seed_that_finds(name)
            report.save()
            click.echo(f"planted: {name}: seed {report.planted[name]}")
    return all(report.planted[name] is not None for name in BUGS)


if __name__ == "__main__":
    main()

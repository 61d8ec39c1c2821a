"""The command line: `python -m tests.soak`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tests.provision.cache import cache_directory
from tests.sim.engine.planted import PLANTED
from tests.sim.engine.soak import first_seed_that_finds
from tests.sim.protocol.soak import explore
from tests.soak.campaign import Campaign
from tests.soak.catalogue import CAMPAIGNS
from tests.soak.publish import FIGURES, publish
from tests.soak.report import Report
from tests.soak.worker import Unready, try_seeds

_SECONDS = 1800.0
_ALL = ("protocol", "planted", *CAMPAIGNS)
_PUBLISH = "publish"
_LIST = "\n".join(f"{campaign.name:<10} {campaign.about}" for campaign in CAMPAIGNS.values())


@click.command(
    help=f"""Run CAMPAIGNS, all by default, and exit with an error if an invariant was violated.

\b
protocol   the model check of the trigger's protocol at all its bounds, and its planted defects
planted    searches a seed of `engine` that detects each planted defect
{_LIST}
publish    runs nothing; writes docs/explanation/reliability.md

Seeds continue where the last run stopped. A failing seed is printed and kept in the report; the next run tries it
again first."""
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
    """Run the campaigns one after the other."""
    kept = Report.load(report, FIGURES)
    passed = True
    for name in campaigns or _ALL:
        match name:
            case "protocol":
                passed = _check_protocol() and passed
            case "planted":
                passed = _find_planted(kept) and passed
            case "publish":
                publish(kept)
            case _:
                passed = soak(CAMPAIGNS[name], kept, seconds) and passed
    for name, total in kept.totals.items():
        click.echo("\n".join([f"{name}:", *(f"  {line}" for line in total.lines())]))
    click.echo(f"all runs so far: {report}")
    sys.exit(0 if passed else 1)


def soak(campaign: Campaign, report: Report, seconds: float) -> bool:
    """Run seeds until the time is up; return False if any failed."""
    total, passed = report.of(campaign.name), True
    try:
        first = max(total.next_seed, campaign.first)
        for result in try_seeds(campaign, seconds, first, tuple(total.failed)):
            total.add(result)
            report.save()
            if result.why:
                passed = False
                click.echo(f"{result.why}\nFAILED: {campaign.command} {result.seed}")
    except Unready as error:
        click.echo(f"{campaign.name} was skipped: {error}")
        return os.environ.get("CI") != "true"
    return passed


def _check_protocol() -> bool:
    passed = True
    for explored in explore():
        click.echo(explored)
        passed = passed and not explored.wrong
    return passed


def _find_planted(report: Report) -> bool:
    """Search a seed for every planted defect without one; return False if a defect stays undetected."""
    for name in sorted(PLANTED):
        if report.planted.get(name) is None:
            report.planted[name] = first_seed_that_finds(name)
            report.save()
            click.echo(f"planted: {name}: seed {report.planted[name]}")
    return all(report.planted[name] is not None for name in PLANTED)


if __name__ == "__main__":
    main()

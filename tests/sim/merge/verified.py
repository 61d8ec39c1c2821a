"""Verifies a mirrored world with `verify`, which must find it equal."""

from __future__ import annotations

from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from tests.lab.mirrored_world import MirroredWorld


def verify_deep(world: MirroredWorld) -> None:
    """Check that deep and fast verification find no difference and compare everything."""
    report = verify_table(world.pipeline, world.table, VerifyOptions(deep=True))
    assert report.equal, report
    assert not report.notes
    assert report.checked.rows == report.live_rows
    fast = verify_table(world.pipeline, world.table, VerifyOptions(sample=200))
    assert fast.equal, fast

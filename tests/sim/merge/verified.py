"""The product's own verification of a mirrored world, which must find it equal."""

from __future__ import annotations

from spark_job.verify.check import Options, verify_table
from tests.mirrors import MirroredWorld


def verify_deep(lab: MirroredWorld) -> None:
    """Deep and fast verification say that all is well, and have looked at everything."""
    report = verify_table(lab.pipeline, lab.table, Options(deep=True))
    assert report.equal, report
    assert not report.notes
    assert report.checked.rows == report.live_rows
    fast = verify_table(lab.pipeline, lab.table, Options(sample=200))
    assert fast.equal, fast

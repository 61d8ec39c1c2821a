"""`kill -9` of a merge into a table without a key: no row may be missing or duplicated."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from tests.lab.append_only import event_file, make, rows
from tests.sim.crash_points import APPEND_POINTS
from tests.sim.merge.forked_job import merge, rebuild, run_forked


@pytest.mark.parametrize("work", [merge, rebuild])
@pytest.mark.parametrize("point", [*APPEND_POINTS, *(f"{point}:2" for point in APPEND_POINTS)])
def test_every_row_is_merged_once_wherever_the_merge_is_killed(
    tmp_path: Path, point: str, work: object
) -> None:
    lab = make(tmp_path, batch=2)
    lab.commit(event_file(("a", 1), ("a", 1)), event_file(("b", 2)))
    lab.commit(event_file(("c", 3), ("d", 4)))
    config = lab.settings.source_path
    expected = Counter({("a", 1): 2, ("b", 2): 1, ("c", 3): 1, ("d", 4): 1})
    if work is rebuild:
        assert run_forked(merge, config, 2) == 0
        assert run_forked(rebuild, config, 2, point) == -signal.SIGKILL, f"{point} was not reached"
        assert rows(lab) == expected
        assert run_forked(rebuild, config, 2) == 0
    else:
        assert run_forked(merge, config, 2, point) == -signal.SIGKILL, f"{point} was not reached"
    assert run_forked(merge, config, 2) == 0
    assert rows(lab) == expected
    assert verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).equal

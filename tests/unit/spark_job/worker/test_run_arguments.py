"""The arguments of a job, from a trigger of possibly another release."""

from __future__ import annotations

import json

import pytest

from icemirror.errors import BadConfig
from spark_job.worker.run_arguments import read_arguments
from tests.unit.trigger.launchers.launcher_suite import REQUEST


def test_request_is_read() -> None:
    arguments = read_arguments(["--request", REQUEST.model_dump_json(), "--run-id", "r"], {})
    assert (arguments.request, arguments.run_id) == (REQUEST, "r")


@pytest.mark.parametrize("changes", [{"version": 2}, {"colour": "red"}, {"gen": None}])
def test_request_of_another_release_is_refused_with_a_remedy(changes: dict[str, object]) -> None:
    request = json.dumps({**json.loads(REQUEST.model_dump_json()), **changes})
    with pytest.raises(BadConfig, match=rf"{next(iter(changes))}.*the same release for both"):
        read_arguments(["--request", request], {})


def test_request_that_is_not_json_is_refused() -> None:
    with pytest.raises(BadConfig, match="JSON"):
        read_arguments(["--request", "{"], {})

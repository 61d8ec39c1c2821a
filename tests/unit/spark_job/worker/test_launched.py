"""The arguments of a job, from a trigger that may be of another release."""

from __future__ import annotations

import json

import pytest

from icemirror.errors import BadConfig
from spark_job.worker.run_arguments import read_arguments
from tests.unit.trigger.launchers.launcher_suite import REQUEST


def test_a_request_is_read() -> None:
    launched = read_arguments(["--request", REQUEST.model_dump_json(), "--run-id", "r"], {})
    assert (launched.request, launched.run_id) == (REQUEST, "r")


@pytest.mark.parametrize("changes", [{"version": 2}, {"colour": "red"}, {"gen": None}])
def test_a_request_of_another_release_is_named_with_what_to_do(changes: dict[str, object]) -> None:
    request = json.dumps({**json.loads(REQUEST.model_dump_json()), **changes})
    with pytest.raises(BadConfig, match=rf"{next(iter(changes))}.*the same release for both"):
        read_arguments(["--request", request], {})


def test_a_request_that_is_no_json_is_named() -> None:
    with pytest.raises(BadConfig, match="JSON"):
        read_arguments(["--request", "{"], {})

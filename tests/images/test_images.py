"""The images of the Dockerfile: built on Debian's own Python, and run as the user that they name."""

from __future__ import annotations

import json

import pytest

from icemirror import __version__
from icemirror.settings.packed import VARIABLE, pack_config
from tests.images.builder import Builder, open_builder
from tests.images.first_changelog import config, make
from tests.images.lambda_service import lambda_service

pytestmark = pytest.mark.timeout(1800)  # bases and layers are copied whole
WORDS = "{{range .OCIv1.Config.%s}}{{.}} {{end}}"


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return open_builder(tmp_path_factory.mktemp("images"))


LAKE = "/tmp/lake"  # noqa: S108 (inside of an image)
ON_SPARK = "job: {spark_from_events: 0}"


def test_the_trigger_is_small_and_runs_as_nobody(builder: Builder) -> None:
    image = builder.build("trigger")
    assert builder.inspect(image, "{{.OCIv1.Config.User}}") == "10001:10001"
    inside = builder.start(image)
    assert inside.run("icemirror", "--version").strip().endswith(__version__)
    assert inside.run("id", "-u").strip() == "10001"
    assert "no module" in inside.run("sh", "-c", "python -c 'import pyspark' 2>&1 || true").lower()
    for absent in ("pip", "gcc", "uv"):
        assert inside.run("sh", "-c", f"command -v {absent} || echo none").strip().endswith("none"), absent
    refused = inside.run("sh", "-c", "touch /opt/icemirror/x 2>&1 || true")
    assert "denied" in refused.lower()


FUNCTION = """
iceberg: {catalog: {type: glue}}
tables: [{changelog: raw.orders_changelog, mirror: shop.orders}]
trigger: {state: {type: sqlite, path: /tmp/state.db}}
"""


def test_the_function_answers_lambda(builder: Builder) -> None:
    image = builder.build("function")
    inside = builder.start(image)
    assert builder.inspect(image, "{{.OCIv1.Config.User}}") == "10001:10001"
    command = " ".join(builder.inspect(image, WORDS % part) for part in ("Entrypoint", "Cmd")).split()
    message = {"eventSource": "aws:sqs", "messageId": "1", "body": "nonsense"}
    with lambda_service() as service:
        told = {"AWS_LAMBDA_RUNTIME_API": service.address, "AWS_REGION": "eu-west-1"}
        function = inside.begin(*command, **told, **{VARIABLE: pack_config(FUNCTION)})
        answer = service.invoke({"Records": [message]})
    said, _ = function.communicate(timeout=60)  # it ends with what it asks for events
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert "the event is not JSON" in said


def test_the_job_merges_on_spark(builder: Builder) -> None:
    inside = builder.start(builder.build("job"))
    inside.run(
        "sh", "-c", f"mkdir -p {LAKE} && printf '%s' '{config(LAKE)}{ON_SPARK}' > {LAKE}/icemirror.yaml"
    )
    inside.run("python", "-c", make(LAKE))
    told = inside.run("icemirror", "merge", "--json", "-c", f"{LAKE}/icemirror.yaml")
    assert json.loads(told)["outcome"] == "merged"
    assert json.loads(told)["live_rows"] == 2
    assert "usage" in inside.run(
        "sh", "-c", "/opt/icemirror/venv/bin/python /opt/icemirror/icemirror_job.py -h"
    )

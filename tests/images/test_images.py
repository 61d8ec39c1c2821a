"""Builds the images of the Dockerfile on Debian's Python and runs them as their user."""

from __future__ import annotations

import json

import pytest

from icemirror import __version__
from icemirror.config_file.packing import PACKED_CONFIG_VARIABLE, pack_config
from tests.images.builder import Builder, open_builder
from tests.images.first_changelog import config, make
from tests.images.lambda_service import lambda_service

pytestmark = pytest.mark.timeout(1800)  # every layer copies the base
WORDS = "{{range .OCIv1.Config.%s}}{{.}} {{end}}"


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return open_builder(tmp_path_factory.mktemp("images"))


LAKE = "/tmp/lake"  # noqa: S108 (inside an image)
ON_SPARK = "job: {spark_from_events: 0}"


def test_trigger_image_is_small_and_unprivileged(builder: Builder) -> None:
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


def test_function_image_responds_to_lambda(builder: Builder) -> None:
    image = builder.build("function")
    inside = builder.start(image)
    assert builder.inspect(image, "{{.OCIv1.Config.User}}") == "10001:10001"
    command = " ".join(builder.inspect(image, WORDS % part) for part in ("Entrypoint", "Cmd")).split()
    message = {"eventSource": "aws:sqs", "messageId": "1", "body": "nonsense"}
    with lambda_service() as service:
        environ = {"AWS_LAMBDA_RUNTIME_API": service.address, "AWS_REGION": "eu-west-1"}
        function = inside.start_process(
            *command, **environ, **{PACKED_CONFIG_VARIABLE: pack_config(FUNCTION)}
        )
        response = service.invoke({"Records": [message]})
    printed, _ = function.communicate(timeout=60)  # it exits when the service ends
    assert response == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert "the event is not JSON" in printed
    for absent in ("click", "rich"):
        imported = inside.run("sh", "-c", f"/opt/icemirror/venv/bin/python -c 'import {absent}' 2>&1 || true")
        assert "no module" in imported.lower()


def test_job_image_merges_on_spark(builder: Builder) -> None:
    inside = builder.start(builder.build("job"))
    inside.run(
        "sh", "-c", f"mkdir -p {LAKE} && printf '%s' '{config(LAKE)}{ON_SPARK}' > {LAKE}/icemirror.yaml"
    )
    inside.run("python", "-c", make(LAKE))
    printed = inside.run("icemirror", "merge", "--json", "-c", f"{LAKE}/icemirror.yaml")
    assert json.loads(printed)["outcome"] == "merged"
    assert json.loads(printed)["live_rows"] == 2
    assert "usage" in inside.run(
        "sh", "-c", "/opt/icemirror/venv/bin/python /opt/icemirror/icemirror_job.py -h"
    )

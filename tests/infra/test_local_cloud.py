"""localstack-compose.yml: what it starts, and with what. (tests/services mirrors its lake.)"""

from __future__ import annotations

import re
from typing import Any

import yaml

from icemirror.settings import load_settings
from tests.unit.house.tracked import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "localstack-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
FOLDER = ROOT / "examples" / "local-cloud"
ONE_SHOT = {"lake"}


def environment(service: str) -> dict[str, str]:
    return {name: str(value) for name, value in SERVICES[service]["environment"].items()}


def test_everything_has_a_pinned_image_or_is_built_from_here() -> None:
    targets = set(re.findall(r" AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    for name, service in SERVICES.items():
        if build := service.get("build"):
            assert build["target"] in targets, name
        else:
            assert re.fullmatch(r"[\w/.-]+:\d+(\.\d+)+", service["image"]), name


def test_everything_says_when_it_is_well_and_waits_for_what_it_needs() -> None:
    for name, service in SERVICES.items():
        assert name in ONE_SHOT or service["healthcheck"]["test"], name
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert SERVICES[needed]["healthcheck"]


def test_only_this_machine_reaches_it_and_what_is_mounted_is_there() -> None:
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source == "/var/run/docker.sock" or (ROOT / source).is_file(), volume


def test_spark_may_run_what_it_unpacks() -> None:
    """Docker lets nothing in a tmpfs be run, unless told; Spark's compressors are libraries that Java unpacks."""
    for name, service in SERVICES.items():
        for place, _, options in (one.partition(":") for one in service.get("tmpfs", ())):
            assert place != "/tmp" or "exec" in options.split(","), name  # noqa: S108


def test_what_needs_a_licence_is_not_started_unasked() -> None:
    licensed = {name for name, one in SERVICES.items() if "TOKEN" in str(one.get("environment"))}
    assert licensed == {name for name, one in SERVICES.items() if one.get("profiles") == ["licensed"]}


def test_the_configuration_fits_the_services() -> None:
    settings = load_settings(FOLDER / "icemirror.yaml", environment("icemirror"))
    sources = settings.trigger.sources
    assert sources.sqs is not None
    assert sources.sqs.queue_url.endswith("/changelogs")
    assert sources.kafka is not None
    host, _, port = sources.kafka.bootstrap_servers[0].partition(":")
    assert f"INSIDE://{host}:{port}" == environment(host)["KAFKA_ADVERTISED_LISTENERS"]
    names = {
        re.split(r"[/:]+", address)[1] for address in environment("icemirror").values() if "://" in address
    }
    assert names <= set(SERVICES)
    assert "changelogs" in (FOLDER / "make-lake.sh").read_text()

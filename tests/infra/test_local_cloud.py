"""localstack-compose.yml: images, dependencies and configuration. tests/services runs its lake."""

from __future__ import annotations

import re

from icemirror.config_file.load import load_settings
from tests.infra.local_cloud import FOLDER, SERVICES, environment
from tests.unit.house.tracked import ROOT

ONE_SHOT = {"lake"}


def test_services_have_a_pinned_image_or_a_build_target() -> None:
    targets = set(re.findall(r" AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    for name, service in SERVICES.items():
        if build := service.get("build"):
            assert build["target"] in targets, name
        else:
            assert re.fullmatch(r"[\w/.-]+:\d+(\.\d+)+", service["image"]), name


def test_services_have_health_checks_and_wait_for_their_dependencies() -> None:
    for name, service in SERVICES.items():
        assert name in ONE_SHOT or service["healthcheck"]["test"], name
        for dependency, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert SERVICES[dependency]["healthcheck"]


def test_ports_are_local_and_mounted_files_exist() -> None:
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source == "/var/run/docker.sock" or (ROOT / source).is_file(), volume


def test_tmp_allows_execution() -> None:
    """A tmpfs is noexec by default, but Java unpacks Spark's compression libraries there."""
    for name, service in SERVICES.items():
        for path, _, options in (mount.partition(":") for mount in service.get("tmpfs", ())):
            assert path != "/tmp" or "exec" in options.split(","), name  # noqa: S108


def test_licensed_services_start_only_with_their_profile() -> None:
    licensed = {name for name, service in SERVICES.items() if "TOKEN" in str(service.get("environment"))}
    assert licensed == {name for name, service in SERVICES.items() if service.get("profiles") == ["licensed"]}


def test_configuration_matches_the_services() -> None:
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

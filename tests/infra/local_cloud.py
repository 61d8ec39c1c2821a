"""The example `local-cloud`: its folder and the environment of its services."""

from __future__ import annotations

from typing import Any

import yaml

from tests.unit.house.tracked import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "localstack-compose.yml").read_text())


SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


FOLDER = ROOT / "examples" / "local-cloud"


def environment(service: str) -> dict[str, str]:
    return {name: str(value) for name, value in SERVICES[service]["environment"].items()}

"""Fixtures for tests on an emulated AWS. Each test module defines `applied`, the installation that it tests."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from icemirror.cli.main import run
from tests.infra.emr_server import emr_serverless
from tests.infra.installation import EXAMPLE, policies_of
from tests.infra.overrides import REGION
from tests.infra.terraform import Terraform
from tests.services.conftest import Start, pytest_runtest_makereport, start
from tests.services.ministack import Ministack, ministack

__all__ = ["pytest_runtest_makereport", "start"]


@pytest.fixture(scope="module")
def aws(start: Callable[[str, Start[Ministack]], Ministack]) -> Ministack:
    """Start a separate ministack, because the functions that it runs must end with it."""
    return start("ministack", ministack)


@pytest.fixture(scope="module")
def job_state() -> str:
    """Return the state of every job run."""
    return "SUCCESS"


@pytest.fixture(scope="module")
def environ(
    aws: Ministack, job_state: str, start: Callable[[str, Start[str]], str]
) -> Iterator[dict[str, str]]:
    """Set the environment for the emulators: moto for EMR Serverless, ministack for all other services."""
    variables = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": aws.endpoint,
        "AWS_ENDPOINT_URL_EMR_SERVERLESS": start("emr", partial(emr_serverless, job_state=job_state)),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield variables


@pytest.fixture(scope="module")
def policies(applied: Terraform) -> dict[str, str]:
    """Return the policy of each role, from Terraform's state."""
    return policies_of(applied)


@pytest.fixture
def config(
    applied: Terraform, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """`terraform output -json | icemirror config from-terraform > icemirror.yaml`"""
    monkeypatch.setattr("sys.stdin", io.StringIO(applied.run("output", "-json", at=EXAMPLE)))
    assert run(["config", "from-terraform"]) == 0
    path = tmp_path / "icemirror.yaml"
    path.write_text(capsys.readouterr().out)
    return path

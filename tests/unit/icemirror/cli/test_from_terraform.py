"""`terraform output -json | icemirror config from-terraform`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from icemirror.cli.main import run
from icemirror.config_file.load import load_settings

CONFIGURATION = {
    "project_ref": "shop",
    "iceberg": {"catalog": {"type": "glue", "warehouse": "s3://lake/mirrors", "glue.region": "eu-central-1"}},
    "tables": [{"changelog": "raw.orders_changelog", "mirror": "shop.orders", "format_version": 3}],
    "discover": [],
    "trigger": {
        "max_wait": "1m",
        "state": {"type": "dynamodb", "table": "shop", "region": "eu-central-1"},
        "launcher": {
            "type": "emr-serverless",
            "application_id": "00f1",
            "execution_role_arn": "arn:aws:iam::123456789012:role/shop-job",
            "entry_point": "s3://shop-jobs/job/icemirror_job.py",
            "archives": ["s3://shop-jobs/job/environment.tar.gz"],
        },
    },
}


def outputs(name: str, value: object) -> str:
    return json.dumps(
        {name: {"sensitive": False, "type": "dynamic", "value": value}, "queue_url": {"value": "x"}}
    )


def test_output_is_a_valid_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(outputs("configuration", CONFIGURATION)))
    assert run(["config", "from-terraform"]) == 0
    path = tmp_path / "icemirror.yaml"
    path.write_text(capsys.readouterr().out)
    settings = load_settings(path, {})
    assert settings.trigger.max_wait == 60
    assert settings.trigger.state.model_dump()["table"] == "shop"
    assert [table.format_version for table in settings.tables] == [3]


def test_other_output_name_and_file_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "outputs.json"
    path.write_text(outputs("icemirror", CONFIGURATION))
    assert run(["config", "from-terraform", "--output", "icemirror", str(path)]) == 0
    assert "application_id: 00f1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Warning: no outputs", "not JSON"),
        ("{}", "no output 'configuration'"),
        ("[]", "no output 'configuration'"),
        (outputs("configuration", "text"), "not a configuration"),
        (outputs("configuration", {**CONFIGURATION, "tabels": []}), "did you mean tables"),
    ],
)
def test_invalid_output_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "outputs.json"
    path.write_text(text)
    assert run(["config", "from-terraform", str(path)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""

"""The examples in docs/how-to/jobs.md load and can be passed to jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from icemirror.config_file.job_config import config_for_job
from icemirror.config_file.load import load_settings

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "jobs.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_loads_and_lists_the_secrets_of_the_job(example: str, tmp_path: Path) -> None:
    path = tmp_path / "icemirror.yaml"
    path.write_text(example)
    environ = {"LAKE_TOKEN": "s3cret"}
    settings = load_settings(path, environ)
    launcher = settings.trigger.launcher
    assert launcher.type != "local"
    assert config_for_job(settings, environ).variables <= set(launcher.secrets)


def test_every_platform_has_an_example() -> None:
    assert len(EXAMPLES) == 2

"""The commands and links of the README work as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule

_ROOT = Path(__file__).resolve().parents[2]
_README = (_ROOT / "README.md").read_text(encoding="utf-8")
_BLOCKS = re.findall(r"```(\w+)\n(.*?)```", _README, flags=re.DOTALL)
_COMMANDS = [
    line.removeprefix("$ ").split("#")[0].strip()
    for kind, text in _BLOCKS
    for line in text.splitlines()
    if kind == "bash" or (kind == "console" and line.startswith("$ "))
]
_ICEMIRROR = [command for command in _COMMANDS if command.startswith(".venv/bin/icemirror")]


def test_readme_contains_only_tested_commands() -> None:
    known = {"make demo", "make test", *_ICEMIRROR}
    assert set(_COMMANDS) - {""} == known
    assert len(_ICEMIRROR) >= 3


def test_links_of_the_readme_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)", _README)
    assert links
    assert [link for link in links if not (_ROOT / link).exists()] == []


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return a folder with the README's configuration, its locations moved to this folder, and a changelog."""
    (text,) = [text for kind, text in _BLOCKS if kind == "yaml"]
    settings = yaml.safe_load(text)
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    settings["iceberg"]["catalog"].update(catalog)
    (table,) = settings["tables"]
    world = MirroredWorld.make(tmp_path, Schedule(seed=5), InProcessEngine())
    world.oracle.commit_many(2)
    table.update(namespace="lab", changelog_table="world_changelog", mirror_table="world")
    settings["job"] = {"linger": "1s"}
    (tmp_path / "icemirror.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def test_commands_of_the_readme_work_in_their_order(shop: Path) -> None:
    for command in _ICEMIRROR:
        words = command.split()
        # `watch` does not end otherwise.
        words += ["--until-idle"] if words[1] == "watch" else []
        run = subprocess.run(
            [sys.executable, "-m", "icemirror", *words[1:]],
            cwd=shop,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert run.returncode == 0, f"{command}: {run.stderr}"
        assert run.stdout or words[1] == "watch", command


def test_demo_of_the_readme_ends_with_its_verdict(tmp_path: Path) -> None:
    arguments = ["demo", "--dir", str(tmp_path / "demo"), "--seconds", "4", "--rows", "3000"]
    command = [sys.executable, "-m", "icemirror", *arguments]
    for options in ([], ["--keep"]):
        run = subprocess.run([*command, *options], capture_output=True, text=True, timeout=280, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        assert run.stdout.count("mirror = oracle") + run.stderr.count("mirror = oracle") >= 3

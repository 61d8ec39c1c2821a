"""The directions of imports hold, and the check that says so can fail."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.house.tracked import ROOT

PACKAGES = ("icemirror", "trigger", "spark_job")


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages of a folder."""
    program = Path(sys.executable).parent / "lint-imports"
    command = [sys.executable, str(program), "--no-cache", "--config", str(folder / "pyproject.toml")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The packages in a folder of their own, free to be broken."""
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_directions_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("where", "statement", "contract"),
    [
        ("trigger", "import spark_job.runtime.java", "do not know each other"),
        ("spark_job", "import trigger", "do not know each other"),
        ("spark_job", "import icemirror.cli", "stands above"),
        ("icemirror", "import trigger", "imports neither"),
        ("icemirror", "import icemirror.cli.main", "imports neither"),
        ("icemirror/telemetry", "import spark_job", "imports neither"),
        ("icemirror", "import numpy", "stays light"),
        ("icemirror/settings", "import pyarrow", "stays light"),
        ("trigger", "def later() -> None:\n    import pyspark", "stays light"),
        ("spark_job/key_index", "import spark_job.iceberg.view", "inside the job"),
        ("spark_job/columns", "import spark_job.key_index.keys", "inside the job"),
        ("spark_job/compaction", "def later() -> None:\n    import spark_job.pipeline", "inside the job"),
        ("spark_job", "", "inside the job"),
        ("spark_job/maintenance", "import pyspark", "needs no Spark"),
    ],
)
def test_a_planted_import_in_the_wrong_direction_is_found(
    copy: Path, where: str, statement: str, contract: str
) -> None:
    (copy / where / "planted.py").write_text(f"{statement}\n", encoding="utf-8")
    done = lint_imports(copy)
    assert done.returncode == 1, done.stdout
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(contract in line for line in broken), done.stdout


def test_the_documented_layers_are_those_of_the_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (one for one in config["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("### What may import what")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|") and "`" in line]
    told = [set(re.findall(r"`(\w+)`", part)) for row in rows for part in row.split("→")]
    assert told == [set(layer.split(" | ")) for layer in contract["layers"]]

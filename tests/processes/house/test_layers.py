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
        ("trigger", "import spark_job.engine.java", "must not import each other"),
        ("spark_job", "import trigger", "must not import each other"),
        ("spark_job", "import icemirror.cli", "only the command line"),
        ("icemirror", "import trigger", "imports neither"),
        ("icemirror", "import icemirror.cli.main", "imports neither"),
        ("icemirror/telemetry", "import spark_job", "imports neither"),
        ("icemirror", "import numpy", "stays light"),
        ("icemirror/settings", "import pyarrow", "stays light"),
        ("trigger", "def later() -> None:\n    import pyspark", "stays light"),
        ("spark_job/index", "import spark_job.iceberg.live_files", "inside the job"),
        ("spark_job/columns", "import spark_job.index.keys", "inside the job"),
        ("spark_job/maintenance", "def later() -> None:\n    import spark_job.pipeline", "inside the job"),
        ("spark_job", "", "inside the job"),
        ("trigger/sources", "import trigger.dispatch.ingest", "inside the trigger"),
        ("trigger/heads", "def later() -> None:\n    import trigger.sources.hints", "inside the trigger"),
        ("trigger", "", "inside the trigger"),
        ("spark_job/maintenance/expire.py", "import pyspark", "need no Spark"),
        ("icemirror/settings", "import icemirror.config_file.document", "inside icemirror"),
        (
            "icemirror/protocol",
            "def later() -> None:\n    import icemirror.stores.sqlite",
            "inside icemirror",
        ),
        ("icemirror", "", "inside icemirror"),
    ],
)
def test_a_planted_import_in_the_wrong_direction_is_found(
    copy: Path, where: str, statement: str, contract: str
) -> None:
    path = copy / where
    path = path if path.suffix else path / "planted.py"
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{kept}\n{statement}\n", encoding="utf-8")
    done = lint_imports(copy)
    assert done.returncode == 1, done.stdout
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(contract in line for line in broken), done.stdout


def test_the_documented_layers_are_those_of_the_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one.get("containers") == ["spark_job"])
    text = (ROOT / "docs" / "development" / "source-map.md").read_text(encoding="utf-8")
    section = text.partition("## What may import what")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|") and "`" in line]
    told = [set(re.findall(r"`(\w+)`", part)) for row in rows for part in row.split("→")]
    assert told == [set(layer.split(" | ")) for layer in contract["layers"]]

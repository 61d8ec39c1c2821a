"""Imports follow the layers, and the check detects violations."""

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
    """Copies the packages into a separate folder, where tests may break them."""
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_imports_follow_the_layers() -> None:
    completed = lint_imports(ROOT)
    assert completed.returncode == 0, completed.stdout


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
def test_planted_import_in_the_wrong_direction_is_detected(
    copy: Path, where: str, statement: str, contract: str
) -> None:
    path = copy / where
    path = path if path.suffix else path / "planted.py"
    content = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(f"{content}\n{statement}\n", encoding="utf-8")
    completed = lint_imports(copy)
    assert completed.returncode == 1, completed.stdout
    broken = [line for line in completed.stdout.splitlines() if " BROKEN" in line]
    assert any(contract in line for line in broken), completed.stdout


def test_documented_layers_equal_the_contract() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    (contract,) = (known for known in contracts if known.get("containers") == ["spark_job"])
    text = (ROOT / "docs" / "development" / "source-map.md").read_text(encoding="utf-8")
    section = text.partition("## What may import what")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|") and "`" in line]
    documented = [set(re.findall(r"`(\w+)`", part)) for row in rows for part in row.split("→")]
    assert documented == [set(layer.split(" | ")) for layer in contract["layers"]]

"""The directions of imports hold, and the check that says so can fail."""

from __future__ import annotations

import pkgutil
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import icemirror
from tests.unit.house.tracked import ROOT

PACKAGES = ("icemirror", "trigger", "spark_job")
# The top layer, and the door to it.
ABOVE = {"icemirror.cli", "icemirror.__main__"}


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
        ("icemirror/telemetry", "import trigger", "imports neither"),
        ("icemirror/settings", "import pyarrow", "stays light"),
        ("trigger", "def later() -> None:\n    import pyspark", "stays light"),
    ],
)
def test_a_planted_import_in_the_wrong_direction_is_found(
    copy: Path, where: str, statement: str, contract: str
) -> None:
    (copy / where / "planted.py").write_text(f"{statement}\n", encoding="utf-8")
    done = lint_imports(copy)
    assert done.returncode == 1, done.stdout
    broken = [line for line in done.stdout.splitlines() if line.endswith("BROKEN")]
    assert any(contract in line for line in broken), done.stdout


def test_every_module_of_the_shared_vocabulary_is_under_the_contracts() -> None:
    """A new module of `icemirror` is light and below the others unless it is the command line."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [
        contract
        for contract in config["tool"]["importlinter"]["contracts"]
        if "shared vocabulary" in contract["name"] or "stays light" in contract["name"]
    ]
    assert len(contracts) == 2
    modules = {f"icemirror.{module.name}" for module in pkgutil.iter_modules(icemirror.__path__)} - ABOVE
    for contract in contracts:
        missing = modules - set(contract["source_modules"])
        assert not missing, f"add to «{contract['name']}» in pyproject.toml: {sorted(missing)}"

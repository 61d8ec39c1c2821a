"""A clone of the repository for tests of the set-up."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.house.tracked import ROOT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with only the files that set-up reads, and an almost empty PATH."""
    folder = tmp_path / "a clone"
    (folder / "requirements").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements/build.txt", "requirements/demo.txt", "requirements/dev.txt"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "bin").mkdir()
    for program in ("sh", "dirname", "sleep"):
        found = shutil.which(program)
        assert found
        (folder / "bin" / program).symlink_to(found)
    return folder


@pytest.fixture
def setup(clone: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module setup.py of the clone, with the real Python and an almost empty PATH."""
    monkeypatch.setenv("PATH", str(clone / "bin"))
    spec = importlib.util.spec_from_file_location("clone_setup", clone / "scripts" / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

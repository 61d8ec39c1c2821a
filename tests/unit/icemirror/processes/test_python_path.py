"""The import path of Python processes that icemirror starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import icemirror
from icemirror.processes.python_path import exclude_working_directory

CLONE = Path(icemirror.__file__).resolve().parents[1]


def test_clone_stays_importable_from_its_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CLONE)
    environ = {"PYTHONPATH": "/extra"}
    exclude_working_directory(environ)
    assert environ == {"PYTHONPATH": f"{CLONE}:/extra", "PYTHONSAFEPATH": "1"}


def test_other_folders_are_not_importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    environ: dict[str, str] = {}
    exclude_working_directory(environ)
    assert environ == {"PYTHONSAFEPATH": "1"}

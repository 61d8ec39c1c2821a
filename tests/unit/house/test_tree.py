"""Rules for every file of the project."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from tests.unit.house.tracked import ROOT, texts, tracked_files

# Split, so that this file does not match.
REGISTRY_HOSTS = tuple(
    "".join(parts)
    for parts in (
        ("pypi", ".org"),
        ("files.python", "hosted.org"),
        ("repo1.", "maven.org"),
        ("repo.maven.", "apache.org"),
        ("maven", "-central"),
        ("registry.", "npmjs.org"),
        ("conda.", "anaconda.org"),
        ("artifact", "ory"),
        ("jfrog", ".io"),
    )
)
# A folder of a user or a machine. The homes of EMR's and Homebrew's users, and `me`, are allowed.
MACHINE_PATH = re.compile(
    r"(?<![\w.$}-])/(?:root|work|Users/\w+|home/(?!(?:hadoop|linuxbrew|me)\b)\w+)/[\w.-]"
)
FORBIDDEN_NAMES = ("util", "utils", "common", "helper", "helpers", "misc", "manager", "context")
CODE = (".py", ".sh", ".tf", ".yaml", ".yml", ".toml", ".html", "Makefile", "Dockerfile")
LINE_CEILING = 400
UNIT = ROOT / "tests" / "unit"


def find_hosts(text: str) -> list[str]:
    return [host for host in REGISTRY_HOSTS if host in text.lower()]


def test_no_registry_host_is_named() -> None:
    found = {name: hosts for name, text in texts().items() if (hosts := find_hosts(text))}
    assert not found


def test_no_machine_path_is_named() -> None:
    roots = {str(ROOT), os.environ.get("VIRTUAL_ENV") or str(ROOT)} - {"/", ""}
    found = {
        name: hits
        for name, text in texts().items()
        if (hits := MACHINE_PATH.findall(text) + [path for path in roots if path in text])
    }
    assert not found


@pytest.mark.parametrize("before", ["see ", "'", "(", 'path="', "file://"])
@pytest.mark.parametrize("folder", ["root", "home/ann", "Users/ann", "work"])
def test_machine_paths_are_detected(before: str, folder: str) -> None:
    assert MACHINE_PATH.search(f"{before}/{folder}/project")


@pytest.mark.parametrize(
    "text", ["/home/hadoop/environment", "spark/work/dir", "https://x.dev/root/a", "$HOME/root/x"]
)
def test_other_paths_are_not_reported(text: str) -> None:
    assert not MACHINE_PATH.search(text)


def test_no_code_file_is_longer_than_the_ceiling() -> None:
    long = {
        name: count
        for name, text in texts().items()
        if name.endswith(CODE) and (count := text.count("\n")) > LINE_CEILING
    }
    assert not long


def test_no_file_has_a_vague_name() -> None:
    vague = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path.suffix == ".py" and set(re.split(r"[_.]", path.stem)) & set(FORBIDDEN_NAMES)
    ]
    assert not vague


def test_unit_test_folders_match_the_product() -> None:
    folders = {path.parent.relative_to(UNIT) for path in UNIT.rglob("test_*.py")}
    unknown = {str(folder) for folder in folders - {Path("house")} if not (ROOT / folder).is_dir()}
    assert not unknown, "tests on tables are in tests/tables, tests of processes in tests/processes"


def test_package_files_contain_only_a_docstring_and_exports() -> None:
    """`__init__.py` of the product: importing a package has no side effect."""
    harmless = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    invalid = [
        name
        for name, text in texts().items()
        if Path(name).name == "__init__.py"
        and name.split("/")[0] in ("icemirror", "trigger", "spark_job")
        and not all(isinstance(statement, harmless) for statement in ast.parse(text).body)
    ]
    assert not invalid


def test_scripts_are_executable() -> None:
    for name, text in texts().items():
        if text.startswith("#!"):
            assert os.access(ROOT / name, os.X_OK), (
                f"{name} has a first line for a shell but cannot be executed"
            )

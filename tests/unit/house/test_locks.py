"""The locks name every package with its hashes, and nothing about where it came from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.house.tracked import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def entries(text: str) -> list[str]:
    """The requirements, each with its continuation lines."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [line for line in lines if not line.lstrip().startswith("#")]


def faults(text: str) -> list[str]:
    """What is wrong with a lock."""
    wrong = [entry for entry in entries(text) if "--hash=sha256:" not in entry]
    wrong += [entry for entry in entries(text) if not re.match(r"\s*[A-Za-z0-9._-]+(\[.*\])?==", entry)]
    wrong += re.findall(r".*(?:index-url|find-links|trusted-host|https?://|file:).*", text)
    return wrong


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_is_pinned_with_hashes_and_no_origin(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert entries(text)
    assert not faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "click==8.5.1\n",
        "click>=8 --hash=sha256:00\n",
        "--index-url https://mirror.example/simple\nclick==8.5.1 --hash=sha256:00\n",
        "click @ https://mirror.example/click.whl --hash=sha256:00\n",
    ],
)
def test_a_careless_lock_would_be_seen(text: str) -> None:
    assert faults(text)


def test_there_is_a_lock_for_each_input() -> None:
    names = {lock.name for lock in LOCKS}
    assert {
        "build.txt",
        "dev.txt",
        "lambda.txt",
        "lambda-image.txt",
        "trigger.txt",
        "job.txt",
        "ministack.txt",
        "spark35.txt",
    } <= names


def test_the_lock_holds_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = {normal(re.split(r"[\s\[<>=!~;]", one, maxsplit=1)[0]) for one in asked} - {"icemirror"}
    locked = {
        normal(re.split(r"[\s\[=]", entry.strip(), maxsplit=1)[0])
        for entry in entries((ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8"))
    }
    assert names <= locked, f"run `make lock`: {sorted(names - locked)}"


def normal(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()

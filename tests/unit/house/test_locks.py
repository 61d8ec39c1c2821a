"""The locks pin every package with its hashes, and contain no origin."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.house.tracked import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def entries(text: str) -> list[str]:
    """Return the requirements, each with its continuation lines."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [line for line in lines if not line.lstrip().startswith("#")]


def faults(text: str) -> list[str]:
    """Return the invalid lines of a lock."""
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
def test_invalid_lock_is_detected(text: str) -> None:
    assert faults(text)


def test_every_input_has_a_lock() -> None:
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
        "uv.txt",
    } <= names


def test_lock_contains_the_dependencies_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {normalize(re.split(r"[\s\[<>=!~;]", name, maxsplit=1)[0]) for name in required} - {"icemirror"}
    locked = {
        normalize(re.split(r"[\s\[=]", entry.strip(), maxsplit=1)[0])
        for entry in entries((ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8"))
    }
    assert names <= locked, f"run `make lock`: {sorted(names - locked)}"


def normalize(name: str) -> str:
    """Normalize a name as package indexes do."""
    return re.sub(r"[-_.]+", "-", name).lower()

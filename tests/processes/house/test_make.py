"""The make targets and scripts that users and CI call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.house.tracked import ROOT

TARGETS = ("setup", "demo", "check", "test", "bench", "soak", "package", "images", "lint", "help")
SCRIPTS = ("scripts/setup.sh", "scripts/lock.sh", "scripts/quietly.sh", "scripts/images.sh", ".ci/run")
MAKE = shutil.which("make") or "make"


def make(*arguments: str) -> str:
    command = [MAKE, "--no-print-directory", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_help_is_the_default_and_lists_every_target() -> None:
    listed = re.findall(r"^  make (\w+)", make(), re.MULTILINE)
    assert set(TARGETS) <= set(listed)
    assert make() == make("help")


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "help"])
def test_every_target_runs_setup(target: str) -> None:
    assert "scripts/setup.sh" in make("--dry-run", target)


def test_make_test_lints_before_pytest() -> None:
    steps = make("--dry-run", "test")
    order = [
        steps.index(word)
        for word in ("setup.sh", "ruff check", "ruff format --check", "mypy", "lint-imports", "pytest")
    ]
    assert order == sorted(order)


def test_ci_runs_only_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["set -eu", 'cd "$(dirname -- "$0")/.."', "exec make test"]


def test_pre_commit_hooks_are_local() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert all(hook["language"] == "system" for hook in config["repos"][0]["hooks"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_shell_scripts_are_plain_sh(name: str) -> None:
    """macOS has bash 3.2 and Debian dash: scripts must not need anything newer."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert not re.search(r"\[\[|\bfunction\b|<<<|\$\{\w+[,^]|\blocal\b|\bsource\b|&>", text)
    subprocess.run(["sh", "-n", str(ROOT / name)], check=True)
    if dash := shutil.which("dash"):
        subprocess.run([dash, "-n", str(ROOT / name)], check=True)


def test_quietly_prints_output_only_on_failure() -> None:
    script = str(ROOT / "scripts" / "quietly.sh")
    completed = subprocess.run(
        [script, "sh", "-c", "echo words"], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")
    completed = subprocess.run(
        [script, "sh", "-c", "echo words; exit 7"], capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stderr) == (7, "words\n")


def test_images_reports_missing_tools_in_one_line(tmp_path: Path) -> None:
    for tool in ("id", "debootstrap"):
        (tmp_path / tool).write_text("#!/bin/sh\necho 1000\n")
        (tmp_path / tool).chmod(0o755)
    script = [shutil.which("sh") or "sh", str(ROOT / "scripts" / "images.sh")]
    completed = subprocess.run(
        script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    missing = "buildah qemu-user-static"
    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr == (
        f"images: not installed: {missing} (Debian: sudo apt-get install --no-install-recommends {missing})\n"
    )
    for tool in ("buildah", "qemu-aarch64-static"):
        shutil.copy(tmp_path / "id", tmp_path / tool)
    completed = subprocess.run(
        script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 2
    assert completed.stderr == "images: building requires root: run `sudo make images`\n"


def test_license_is_the_complete_apache_license() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert len(text.splitlines()) > 170

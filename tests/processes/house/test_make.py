"""The commands that people and CI services call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.house.tracked import ROOT

PROMISED = ("setup", "demo", "check", "test", "bench", "soak", "package", "images", "lint", "help")
SCRIPTS = ("scripts/setup.sh", "scripts/lock.sh", "scripts/quietly.sh", "scripts/images.sh", ".ci/run")
MAKE = shutil.which("make") or "make"


def make(*arguments: str) -> str:
    command = [MAKE, "--no-print-directory", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_help_is_the_default_and_lists_every_promised_target() -> None:
    listed = re.findall(r"^  make (\w+)", make(), re.MULTILINE)
    assert set(PROMISED) <= set(listed)
    assert make() == make("help")


@pytest.mark.parametrize("target", [target for target in PROMISED if target != "help"])
def test_each_target_sets_up_what_it_needs(target: str) -> None:
    assert "scripts/setup.sh" in make("--dry-run", target)


def test_test_lints_before_it_tests() -> None:
    steps = make("--dry-run", "test")
    order = [
        steps.index(word)
        for word in ("setup.sh", "ruff check", "ruff format --check", "mypy", "lint-imports", "pytest")
    ]
    assert order == sorted(order)


def test_ci_calls_what_a_user_calls_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["set -eu", 'cd "$(dirname -- "$0")/.."', "exec make test"]


def test_hooks_before_a_commit_are_our_own() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert all(hook["language"] == "system" for hook in config["repos"][0]["hooks"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_shell_scripts_are_plain_sh(name: str) -> None:
    """macOS has bash 3.2 and Debian dash: nothing newer may be needed."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert not re.search(r"\[\[|\bfunction\b|<<<|\$\{\w+[,^]|\blocal\b|\bsource\b|&>", text)
    subprocess.run(["sh", "-n", str(ROOT / name)], check=True)
    if dash := shutil.which("dash"):
        subprocess.run([dash, "-n", str(ROOT / name)], check=True)


def test_quietly_is_quiet_about_success_and_loud_about_failure() -> None:
    script = str(ROOT / "scripts" / "quietly.sh")
    done = subprocess.run([script, "sh", "-c", "echo words"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = subprocess.run(
        [script, "sh", "-c", "echo words; exit 7"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (7, "words\n")


def test_images_says_in_one_line_what_is_missing(tmp_path: Path) -> None:
    for tool in ("id", "debootstrap"):
        (tmp_path / tool).write_text("#!/bin/sh\necho 1000\n")
        (tmp_path / tool).chmod(0o755)
    script = [shutil.which("sh") or "sh", str(ROOT / "scripts" / "images.sh")]
    done = subprocess.run(script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    wanted = "buildah qemu-user-static"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"images: not installed: {wanted} (Debian: sudo apt-get install --no-install-recommends {wanted})\n"
    )
    for tool in ("buildah", "qemu-aarch64-static"):
        shutil.copy(tmp_path / "id", tmp_path / tool)
    done = subprocess.run(script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "images: building requires root: run `sudo make images`\n"


def test_the_licence_is_the_whole_apache_licence() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert len(text.splitlines()) > 170

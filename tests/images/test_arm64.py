"""Runs the packages for arm64 with Debian's Python on an emulated processor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.images.first_changelog import config, make
from tests.provision.cache import fetch_once
from tests.support.need import do_without
from tests.unit.house.tracked import ROOT

_DEBIAN, _PYTHON = "bookworm", "3.11"
_EMULATOR = "qemu-aarch64-static"
_SECONDS = 600
HANDLER = """
import json, os, platform
from icemirror.config_file.packing import PACKED_CONFIG_VARIABLE, pack_config
os.environ |= {PACKED_CONFIG_VARIABLE: pack_config(os.environ["CONFIG"]), "AWS_REGION": "eu-west-1"}
from trigger.handler import handler
message = {"eventSource": "aws:sqs", "messageId": "1", "body": "nonsense"}
print(json.dumps([platform.machine(), handler({"Records": [message]}, None)]))
"""


@dataclass(frozen=True)
class Arm64:
    """An arm64 Debian, of which only Python runs."""

    root: Path

    def python(self, packages: Path, *arguments: str, **environ: str) -> str:
        """Run Python with only these packages and return its output."""
        given = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(packages),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environ,
        }
        program = self.root / "usr" / "bin" / f"python{_PYTHON}"
        done = subprocess.run(
            [_EMULATOR, "-L", str(self.root), str(program), "-s", *arguments],
            env=given,  # the emulator passes it on
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="module")
def arm64() -> Arm64:
    missing = [name for name in (_EMULATOR, "debootstrap", "dpkg-deb") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        do_without(
            "running packages for arm64 requires root, qemu-user-static and debootstrap; "
            f"missing: {missing or 'root'}"
        )
    return Arm64(fetch_once(f"servers/debian-{_DEBIAN}-python-arm64", _debootstrap))


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run `make package ARGS="--arch arm64"` for Debian's Python."""
    out = tmp_path_factory.mktemp("dist")
    options = ["--arch", "arm64", "--python", _PYTHON, "--job-python", _PYTHON, "--out", str(out)]
    script = str(ROOT / "scripts" / "package.py")
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.timeout(1800)
def test_function_runs_on_arm64(arm64: Arm64, dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(dist / "icemirror-trigger.zip") as package:
        package.extractall(tmp_path / "function")  # noqa: S202 (built by this test)
    state = f"{{type: sqlite, path: {tmp_path / 'state.db'}}}"
    tables = "[{changelog: raw.orders_changelog, mirror: shop.orders}]"
    settings = f"{{iceberg: {{catalog: {{type: glue}}}}, tables: {tables}, trigger: {{state: {state}}}}}"
    printed = arm64.python(tmp_path / "function", "-c", HANDLER, CONFIG=settings)
    assert json.loads(printed.splitlines()[-1]) == [
        "aarch64",
        {"batchItemFailures": [{"itemIdentifier": "1"}]},
    ]


@pytest.mark.timeout(1800)
def test_job_merges_on_arm64(arm64: Arm64, dist: Path, tmp_path: Path) -> None:
    with tarfile.open(dist / "icemirror-job.tar.gz") as archive:
        archive.extractall(tmp_path / "job", filter="fully_trusted")  # noqa: S202 (built by this test)
    packages = tmp_path / "job" / "lib" / f"python{_PYTHON}" / "site-packages"
    (tmp_path / "lake").mkdir()
    (tmp_path / "icemirror.yaml").write_text(config(f"{tmp_path}/lake"))
    arm64.python(packages, "-c", make(f"{tmp_path}/lake"))
    printed = arm64.python(packages, "-m", "icemirror", "-c", f"{tmp_path}/icemirror.yaml", "merge", "--json")
    assert json.loads(printed)["live_rows"] == 2


def _debootstrap(scratch: Path) -> Path:
    """Unpack Debian's files for arm64 without running any of its programs."""
    root = scratch / "root"
    command: list[str | Path] = [
        "debootstrap",
        "--variant=minbase",
        "--foreign",
        "--arch=arm64",
        "--include=python3",
        _DEBIAN,
        root,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        do_without(f"debootstrap failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        files = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True
        ).stdout
        extract: list[str | Path] = ["tar", "--extract", "--keep-directory-symlink", "--directory", root]
        subprocess.run(extract, input=files, check=True)
        package.unlink()
    return root

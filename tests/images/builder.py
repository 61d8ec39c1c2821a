"""Builds and runs images without a daemon: buildah in a folder of its own, on a Debian base made by debootstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.cache import fetch_once
from tests.need import do_without
from tests.unit.house.tracked import ROOT

_DEBIAN = "bookworm"
_BASE = "localhost/python-base"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")  # of a registry behind a proxy of one's own


@dataclass(frozen=True)
class Builder:
    """Its images are in `folder`."""

    folder: Path

    def build(self, target: str) -> str:
        """The name of the image of a target of the Dockerfile."""
        name = f"localhost/icemirror-{target}"
        seen = ["--volume", f"{_CERTIFICATES}:{_CERTIFICATES}:ro", "--env", f"PIP_CERT={_CERTIFICATES}"]
        self._do(
            "build", "--isolation", "chroot", "--network", "host", *seen,
            "--build-arg", f"PYTHON_BASE={_BASE}", "--target", target, "--tag", name, str(ROOT),
        )  # fmt: skip
        return name

    def inspect(self, image: str, template: str) -> str:
        """What is told of an image, by a template of Go."""
        return self._do("inspect", "--type", "image", "--format", template, image).strip()

    def start(self, image: str) -> Container:
        """A container of the image, in which nothing runs yet."""
        return Container(self, self._do("from", "--pull-never", image).strip())

    def make_base(self) -> None:
        """Debian with Python, as little as that can be."""
        root = fetch_once(f"servers/debian-{_DEBIAN}-python", _debootstrap)
        made = self._do("from", "scratch").strip()
        self._do("add", "--quiet", made, str(root), "/")
        self._do("commit", "--quiet", made, _BASE)
        self._do("rm", made)

    def _command(self, *arguments: str) -> list[str]:
        places = ["--root", str(self.folder / "store"), "--runroot", str(self.folder / "run")]
        return ["buildah", *places, "--storage-driver", "vfs", *arguments]

    def _do(self, *arguments: str) -> str:
        command = self._command(*arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-3000:]}"
        return done.stdout


@dataclass(frozen=True)
class Container:
    """Commands run in it one after the other, as the image's user."""

    builder: Builder
    name: str

    def run(self, *command: str, **environ: str) -> str:
        """What the command printed."""
        given = [word for name, value in environ.items() for word in ("--env", f"{name}={value}")]
        return self.builder._do("run", "--isolation", "chroot", *given, self.name, "--", *command)

    def begin(self, *command: str, **environ: str) -> subprocess.Popen[str]:
        """The command, which goes on."""
        given = [word for name, value in environ.items() for word in ("--env", f"{name}={value}")]
        begun = self.builder._command("run", "--isolation", "chroot", *given, self.name, "--", *command)
        return subprocess.Popen(begun, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def open_builder(folder: Path) -> Builder:
    """One with a base to build on."""
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        do_without(
            f"images are built by root, with buildah and debootstrap of Debian; missing: {missing or 'root'}"
        )
    builder = Builder(folder)
    builder.make_base()
    return builder


def _debootstrap(scratch: Path) -> Path:
    root = scratch / "root"
    command = [
        "debootstrap",
        "--variant=minbase",
        "--include=python3,python3-venv,ca-certificates",
        _DEBIAN,
        str(root),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        do_without(f"debootstrap failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    (root / "usr" / "bin" / "python").symlink_to("python3")
    return root

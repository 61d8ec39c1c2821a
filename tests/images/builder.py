"""Builds and runs images without a daemon: buildah with a separate store, on a Debian base from debootstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.provision.cache import fetch_once
from tests.support.need import do_without
from tests.unit.house.tracked import ROOT

_DEBIAN = "bookworm"
_BASE = "localhost/python-base"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")  # for a registry behind a proxy


@dataclass(frozen=True)
class Builder:
    """Builds images with a store in `folder`."""

    folder: Path

    def build(self, target: str) -> str:
        """Build a target of the Dockerfile and return the image's name."""
        name = f"localhost/icemirror-{target}"
        certificates = [
            "--volume",
            f"{_CERTIFICATES}:{_CERTIFICATES}:ro",
            "--env",
            f"PIP_CERT={_CERTIFICATES}",
        ]
        self._do(
            "build", "--isolation", "chroot", "--network", "host", *certificates,
            "--build-arg", f"PYTHON_BASE={_BASE}", "--target", target, "--tag", name, str(ROOT),
        )  # fmt: skip
        return name

    def inspect(self, image: str, template: str) -> str:
        """Return a property of an image, by a Go template."""
        return self._do("inspect", "--type", "image", "--format", template, image).strip()

    def start(self, image: str) -> Container:
        """Return a container of the image, in which no process runs yet."""
        return Container(self, self._do("from", "--pull-never", image).strip())

    def make_base(self) -> None:
        """Create the base image: a minimal Debian with Python."""
        root = fetch_once(f"servers/debian-{_DEBIAN}-python", _debootstrap)
        container = self._do("from", "scratch").strip()
        self._do("add", "--quiet", container, str(root), "/")
        self._do("commit", "--quiet", container, _BASE)
        self._do("rm", container)

    def _command(self, *arguments: str) -> list[str]:
        store = ["--root", str(self.folder / "store"), "--runroot", str(self.folder / "run")]
        return ["buildah", *store, "--storage-driver", "vfs", *arguments]

    def _do(self, *arguments: str) -> str:
        command = self._command(*arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-3000:]}"
        return done.stdout


@dataclass(frozen=True)
class Container:
    """A container that runs commands one after the other, as the image's user."""

    builder: Builder
    name: str

    def run(self, *command: str, **environ: str) -> str:
        """Run a command and return its output."""
        given = [word for name, value in environ.items() for word in ("--env", f"{name}={value}")]
        return self.builder._do("run", "--isolation", "chroot", *given, self.name, "--", *command)

    def start_process(self, *command: str, **environ: str) -> subprocess.Popen[str]:
        """Start a command and return its process."""
        given = [word for name, value in environ.items() for word in ("--env", f"{name}={value}")]
        started = self.builder._command("run", "--isolation", "chroot", *given, self.name, "--", *command)
        return subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def open_builder(folder: Path) -> Builder:
    """Return a builder with the base image."""
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        do_without(f"building images requires root, buildah and debootstrap; missing: {missing or 'root'}")
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

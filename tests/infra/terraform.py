"""Runs Terraform on a copy of our modules, with the AWS provider of this machine or of the registry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.provision.cache import Unavailable

OURS = Path(__file__).parents[2] / "infra" / "terraform"
_PROVIDER = "registry.terraform.io/hashicorp/aws"
_SECONDS = 300


def _mirror_locations(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders that may hold a provider mirror: Terraform's default locations and /opt."""
    home = Path(environ.get("HOME", "/"))
    if cache := environ.get("TF_PLUGIN_CACHE_DIR"):
        yield Path(cache)
    yield home / ".terraform.d" / "plugins"
    yield Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "terraform" / "plugins"
    for shared in ("/usr/local/share", "/usr/share"):
        yield Path(shared) / "terraform" / "plugins"
    optional = Path("/opt")
    if optional.is_dir():
        yield from sorted(optional.iterdir())


def find_mirror(environ: Mapping[str, str]) -> Path | None:
    """Return the first provider mirror that contains the AWS provider."""
    return next((found for found in _mirror_locations(environ) if any(found.glob(f"{_PROVIDER}/*/*"))), None)


@dataclass
class Terraform:
    """Terraform in a copy of infra/terraform, so that the source tree stays clean."""

    folder: Path
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def __post_init__(self) -> None:
        found = shutil.which("terraform")
        if found is None:
            raise Unavailable("Terraform is not installed")
        self.program = found
        ignored = shutil.ignore_patterns(".terraform*", "*.tfstate*")
        shutil.copytree(OURS, self.folder, ignore=ignored, dirs_exist_ok=True)

    def init(self, at: str = ".") -> None:
        """Run `terraform init` in a folder."""
        mirror = find_mirror(self.environ)
        given = [] if mirror is None else [f"-plugin-dir={mirror}"]
        done = self._run(["init", "-input=false", "-backend=false", *given], at)
        if done.returncode != 0 and mirror is None:
            raise Unavailable(
                f"no mirror of the AWS provider found, and no registry reachable: {done.stderr[-500:]}"
            )
        assert done.returncode == 0, done.stderr

    def run(self, *arguments: str, at: str = ".") -> str:
        """Run a command that must succeed, and return its output."""
        done = self._run(arguments, at)
        assert done.returncode == 0, f"terraform {arguments[0]}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def fail(self, *arguments: str, at: str = ".") -> str:
        """Run a command that must fail, and return its output as one line, without frames and wrapping."""
        done = self._run(arguments, at)
        assert done.returncode != 0, done.stdout[-4000:]
        return " ".join(f"{done.stdout} {done.stderr}".replace("│", " ").split())

    def outputs(self, at: str) -> dict[str, Any]:
        """Return the outputs of the applied configuration."""
        return {
            name: output["value"] for name, output in json.loads(self.run("output", "-json", at=at)).items()
        }

    def _run(self, arguments: list[str] | tuple[str, ...], at: str) -> subprocess.CompletedProcess[str]:
        environ = {
            **self.environ,
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
            "TF_CLI_CONFIG_FILE": os.devnull,
        }
        return subprocess.run(
            [self.program, *arguments],
            cwd=self.folder / at,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

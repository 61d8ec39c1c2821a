"""Shell scripts that stand in for programs."""

from __future__ import annotations

from pathlib import Path


def write_script(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)

"""Describes the machine that the benchmarks run on."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.result import Machine

_PACKAGES = ("icemirror", "pyspark", "pyiceberg", "pyarrow", "numpy", "duckdb")


def describe_machine(versions: Mapping[str, str]) -> Machine:
    """Describe this machine, with the versions of the measured systems."""
    packages = {package: version(package) for package in _PACKAGES}
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_bytes=memory_bytes(),
        system=_system(),
        versions={"Python": platform.python_version(), **packages, **versions},
    )


def busy_cores(sample_seconds: float) -> float | None:
    """Return the number of busy cores while no benchmark runs; None if unknown."""
    before = _cpu_ticks()
    if before is None:
        return None
    time.sleep(sample_seconds)
    after = _cpu_ticks()
    if after is None:
        raise AssertionError("/proc/stat existed before")
    (busy, total), (busy_before, total_before) = after, before
    return (busy - busy_before) / max(1, total - total_before) * (os.cpu_count() or 1)


def _cpu_ticks() -> tuple[int, int] | None:
    """Return the busy and the total ticks of all cores."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    ticks = [int(word) for word in stat.read_text(encoding="utf-8").splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def memory_bytes() -> int:
    """Return the machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return (
            subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
        )
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = f"{platform.system()} {platform.mac_ver()[0]}".strip()
    return f"{name}, kernel {platform.release()}, {platform.machine()}"

"""How much memory this process holds."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def resident_bytes() -> int | None:
    """Resident set size now on Linux; elsewhere the most that it ever was."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others KiB
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return None

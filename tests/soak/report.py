"""The totals of all runs, in a file that the next run continues."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.soak.campaign import Total


@dataclass
class Report:
    """Totals by campaign, and the first seed that detected each planted defect."""

    path: Path
    totals: dict[str, Total] = field(default_factory=dict)
    planted: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, published: Path | None = None) -> Report:
        """Load the report of earlier runs, else the published one, else an empty one."""
        known = next((file for file in (path, published) if file is not None and file.exists()), None)
        if known is None:
            return cls(path)
        stored = json.loads(known.read_text())
        for total in stored["totals"].values():
            total.setdefault("fixed", total.pop("mended", []))  # its name in older reports
        totals = {name: Total(**total) for name, total in stored["totals"].items()}
        return cls(path, totals, stored["planted"])

    def of(self, campaign: str) -> Total:
        """Return the total of a campaign, to add to."""
        return self.totals.setdefault(campaign, Total())

    def save(self) -> None:
        """Replace the file atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        totals = {name: asdict(total) for name, total in self.totals.items()}
        fresh.write_text(json.dumps({"totals": totals, "planted": self.planted}, indent=1) + "\n")
        fresh.replace(self.path)

"""What a job receives at launch. Versioned: trigger and job may be of different releases."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class RunRequest(BaseModel):
    """The worker slot that the job takes, and the location of its configuration (without its secrets)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: Literal[1] = 1
    group: str
    slot: int
    gen: int
    config: str

    @property
    def token(self) -> str:
        """The launcher's idempotency token: the same for every launch of this slot generation."""
        return f"{self.group}-{self.slot}-{self.gen}"

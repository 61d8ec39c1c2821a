"""What the trigger tells a job at launch. Versioned: a trigger and a job of different releases may meet."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class RunRequest(BaseModel):
    """The worker slot that the job shall take, and where its configuration is (never the secrets in it)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: Literal[1] = 1
    group: str
    slot: int
    gen: int
    config: str

    @property
    def token(self) -> str:
        """The same for every launch of this generation of the slot: the launcher's idempotency token."""
        return f"{self.group}-{self.slot}-{self.gen}"

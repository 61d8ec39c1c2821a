"""Results of turns as JSON: history for status and metrics, so that what cannot be read or kept is left out."""

from __future__ import annotations

from pydantic import ValidationError

from icemirror.result import TableResult
from icemirror.state.store import RunResult


def dump_result(result: TableResult, most_bytes: int | None = None) -> str:
    """The result as JSON; of one that is too long, the first slices are left out."""
    body = result.model_dump_json()
    while most_bytes is not None and len(body.encode()) > most_bytes and result.slices:
        kept = len(result.slices) // 2
        result = result.model_copy(update={"slices": result.slices[len(result.slices) - kept :]})
        body = result.model_dump_json()
    return body


def load_result(run_id: str, at: float, body: str) -> RunResult | None:
    """A recorded result; None for one of another release that this one cannot read."""
    try:
        return RunResult(run_id, at, TableResult.model_validate_json(body))
    except ValidationError:
        return None

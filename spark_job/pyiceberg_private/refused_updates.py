"""Recognizes updates of a table that PyIceberg refuses. It raises a bare ValueError for them."""

from __future__ import annotations

from pyiceberg.table import update as updates


def is_refused_update(error: BaseException) -> bool:
    """Return whether PyIceberg refused the updates of a commit. It applies them locally before it sends anything."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__") if trace is not None else None
    return isinstance(error, ValueError) and module == updates.__name__

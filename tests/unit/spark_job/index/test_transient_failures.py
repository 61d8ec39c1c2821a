"""A transient storage failure is not damage: otherwise the table would be quarantined for no reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from icemirror.errors import Transient
from spark_job.index import segment_cache
from spark_job.index.lookup import find_keys
from spark_job.index.orders import encode_orders, read_orders
from spark_job.index.puffin import Blob, Span, read_blobs, read_span, write_puffin
from spark_job.storage.translate_errors import translate_errors
from tests.unit.spark_job.index.failing_io import FailingFileIO
from tests.unit.spark_job.index.samples import ORDERED_64, make_keys, row_entries, store

FAILURES = {"error": False, "too few bytes": True}


@pytest.mark.parametrize("short", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("failures", [1, 2])
def test_failed_read_of_orders_is_transient(tmp_path: Path, short: bool, failures: int) -> None:
    orders = np.arange(800, dtype=np.uint64).reshape(400, 2)
    path = tmp_path / "orders"
    path.write_bytes(encode_orders(orders))
    span = Span(offset=0, length=path.stat().st_size)
    with pytest.raises(Transient), translate_errors("shop.orders"):
        read_orders(FailingFileIO(failures, short=short), str(path), span, np.arange(400, dtype=np.uint64), 2)
    assert (
        read_orders(FailingFileIO(0), str(path), span, np.arange(400, dtype=np.uint64), 2) == orders
    ).all()


@pytest.mark.parametrize("short", FAILURES.values(), ids=FAILURES)
def test_failed_read_of_blobs_is_transient(tmp_path: Path, short: bool) -> None:
    path = str(tmp_path / "one.puffin")
    _, (span,) = write_puffin(FailingFileIO(0), path, [Blob("kind", b"payload")])
    with pytest.raises(Transient), translate_errors("shop.orders"):
        read_blobs(FailingFileIO(1, short=short), path)
    with pytest.raises(Transient), translate_errors("shop.orders"):
        read_span(FailingFileIO(1, short=short), path, span, 100)
    assert read_span(FailingFileIO(0), path, span, 100) == b"payload"


@pytest.mark.parametrize("short", FAILURES.values(), ids=FAILURES)
def test_failed_read_of_blocks_is_transient(
    tmp_path: Path, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_ALWAYS_CACHED_BYTES", "_MAX_CACHED_BYTES"):  # otherwise the whole segment is cached
        monkeypatch.setattr(segment_cache, limit, 0)
    entries = row_entries(list(range(0, 200, 2)), [0] * 100, list(range(100)), ORDERED_64)
    segment = store(FailingFileIO(0), tmp_path, entries, ORDERED_64)
    keys = make_keys(ORDERED_64, [8])
    with pytest.raises(Transient), translate_errors("shop.orders"):
        find_keys(FailingFileIO(1, short=short), [segment], keys)
    find_keys(FailingFileIO(0), [segment], keys)  # now the directory is cached, the blocks are not
    with pytest.raises(Transient), translate_errors("shop.orders"):
        find_keys(FailingFileIO(1, short=short), [segment], keys)

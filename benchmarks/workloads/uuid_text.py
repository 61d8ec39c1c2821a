"""Uuids as text, one per number, deterministic and unordered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.fingerprint import mix_bits
from benchmarks.workloads.workload import Ids

_LENGTH = 36
_DASHES = (8, 13, 18, 23)
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), dtype=np.uint8).reshape(256, 2)


def uuid_texts(ids: Ids) -> pa.Array:
    """Return a column of texts such as `5b2a…-…`."""
    high = mix_bits(ids.astype(np.uint64) + np.uint64(1))
    low = mix_bits(high + np.uint64(0x9E3779B97F4A7C15))
    raw = np.stack([high, low], axis=1).astype(">u8").view(np.uint8).reshape(len(ids), 16)
    digits = _HEX[raw].reshape(len(ids), 32)
    text = np.full((len(ids), _LENGTH), ord("-"), dtype=np.uint8)
    text[:, [position for position in range(_LENGTH) if position not in _DASHES]] = digits
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * _LENGTH
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(text))

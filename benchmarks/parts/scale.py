"""The sizes of tables and batches: as published, or tiny, to test the scripts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Rows of tables, events of batches, numbers of batches. The first batch of each table is a warm-up."""

    tables: tuple[int, int, int] = (1_000_000, 10_000_000, 50_000_000)
    small_events: int = 2_000
    small_rounds: int = 8
    peer_rounds: int = 4  # of a slow system
    large_events: int = 1_000_000
    large_rounds: int = 4
    wide_rows: int = 1_000_000
    wide_events: int = 10_000
    wide_rounds: int = 4
    ladder: tuple[int, ...] = (200, 2_000, 20_000, 200_000)
    ladder_rounds: int = 4
    repeated_events: int = 500
    repeated_merges: int = 1_000
    reading_merges: int = 100
    lookup_keys: int = 2_000
    lookup_runs: int = 9
    storage_rows: int = 500_000
    index_rows: int = 1_000_000
    memory_rows: int = 20_000_000
    latency_rows: int = 100_000
    latency_events: int = 200
    latency_commits: int = 50
    fleet_tables: int = 100
    fleet_rows: int = 1_000  # of a quiet table
    fleet_busy_rows: int = 30_000  # enough that its initial copy runs on Spark
    fleet_events: int = 100
    fleet_seconds: float = 360.0
    fleet_busy_every_seconds: float = 1.0
    fleet_quiet_every_seconds: float = 300.0
    fleet_linger_seconds: float = 10.0
    sample_seconds: float = 2.0  # of the machine's load, before each part
    free_bytes: int = 20 << 30  # required free disk space


FULL = Scale()
TOY = Scale(
    tables=(4_000, 8_000, 12_000),
    small_events=200,
    small_rounds=2,
    peer_rounds=2,
    large_events=1_000,
    large_rounds=2,
    wide_rows=360,
    wide_events=40,
    wide_rounds=2,
    ladder=(20, 200),
    ladder_rounds=2,
    repeated_events=40,
    repeated_merges=6,
    reading_merges=3,
    lookup_keys=200,
    lookup_runs=3,
    storage_rows=2_000,
    index_rows=4_000,
    memory_rows=8_000,
    latency_rows=200,
    latency_events=8,
    latency_commits=3,
    fleet_tables=5,
    fleet_rows=100,
    fleet_busy_rows=20_000,
    fleet_events=8,
    fleet_seconds=6.0,
    fleet_busy_every_seconds=0.5,
    fleet_quiet_every_seconds=4.0,
    fleet_linger_seconds=5.0,
    sample_seconds=0.1,
    free_bytes=1 << 30,
)

"""First oracle: the journal replayed event by event in SQLite."""

from __future__ import annotations

import sqlite3

from icemirror.cli.demo.oracle.journal import Until
from icemirror.cli.demo.oracle.subject import Subject

_REPLAY = """
INSERT INTO temp.winner
SELECT key, sequence, commit_no, file_no, pos, operation FROM events
WHERE subject = :subject AND (commit_no, file_no) < (:commit_no, :files)
ORDER BY commit_no, file_no, pos
ON CONFLICT (key) DO UPDATE SET sequence = excluded.sequence, commit_no = excluded.commit_no,
    file_no = excluded.file_no, pos = excluded.pos, operation = excluded.operation
WHERE (excluded.sequence, excluded.commit_no, excluded.file_no, excluded.pos)
    > (winner.sequence, winner.commit_no, winner.file_no, winner.pos)
"""
_LIVE = """
SELECT key, image FROM temp.winner JOIN events USING (commit_no, file_no, pos, key)
WHERE events.subject = :subject AND winner.operation <> 'DELETE'
"""


def replay_journal(connection: sqlite3.Connection, subject: Subject, until: Until) -> dict[bytes, bytes]:
    """Key → row of all rows that are alive at that point: the greatest event of a key wins."""
    named = {"subject": subject.name, "commit_no": until.commit_no, "files": until.files}
    connection.execute(
        "CREATE TEMP TABLE winner (key BLOB PRIMARY KEY, sequence TEXT, commit_no INTEGER, file_no INTEGER,"
        " pos INTEGER, operation TEXT) WITHOUT ROWID"
    )
    try:
        connection.execute(_REPLAY, named)
        return dict(connection.execute(_LIVE, named).fetchall())
    finally:
        connection.execute("DROP TABLE temp.winner")

"""State in DynamoDB on a separate emulator process: conformance, including many writers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from icemirror.errors import Invalid
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import TableRow
from tests.processes.stores.emulated_dynamodb import CREDENTIALS, create_table, open_emulated
from tests.processes.stores.store_suite import OpenStore, StoreSuite
from tests.services.ministack import Ministack, ministack


@pytest.fixture(scope="module")
def server(start: Callable[[str, Any], Ministack]) -> Ministack:
    return start("ministack", ministack)


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


class TestDynamoDbStoreOnAServer(StoreSuite):
    @pytest.fixture(autouse=True)
    def _table(self, server: Ministack, _credentials: None) -> None:
        self.endpoint, self.table = server.endpoint, f"state-{uuid4().hex[:8]}"
        create_table(self.endpoint, self.table)

    def opener(self) -> OpenStore:
        return partial(open_emulated, self.endpoint, self.table, self.KEPT_RESULTS, self.KEPT_LETTERS)


def test_missing_table_is_reported_with_a_remedy(server: Ministack) -> None:
    with open_emulated(server.endpoint, "nowhere") as store:
        with pytest.raises(Invalid, match=r"does not exist in this region: create it.*nowhere"):
            store.load(ALL_ROWS)
        with pytest.raises(Invalid, match=r"does not exist in this region: create it.*nowhere"):
            store.compare_and_set(TableRow("t"))

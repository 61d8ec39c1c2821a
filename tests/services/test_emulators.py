"""The emulators and the fault proxy behave as the other tests require."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import pytest
import requests
from botocore.exceptions import ClientError

from tests.services.fault_proxy import Fault, Plan, PlannedFault, fault_proxy
from tests.services.glue import Glue
from tests.services.s3proxy import REGION


def test_glue_rejects_an_update_with_a_stale_version(glue_server: Glue, bucket: str) -> None:
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    client = boto3.client("glue", region_name=REGION, endpoint_url=glue_server.endpoint, **keys)
    try:
        client.create_database(DatabaseInput={"Name": bucket})
        client.create_table(DatabaseName=bucket, TableInput={"Name": "t"})
        version = client.get_table(DatabaseName=bucket, Name="t")["Table"]["VersionId"]
        update = {"DatabaseName": bucket, "TableInput": {"Name": "t"}, "VersionId": version}
        client.update_table(**update, SkipArchive=True)
        with pytest.raises(ClientError, match="ConcurrentModificationException"):
            client.update_table(**update, SkipArchive=True)
    finally:
        client.close()


class _CountingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = 0

    def do_POST(self) -> None:
        type(self).seen += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(http.client.OK)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the standard library's name)
        """Log nothing."""


@pytest.fixture
def upstream() -> Iterator[tuple[int, type[_CountingHandler]]]:
    handler = type("Handler", (_CountingHandler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server.server_address[1], handler
        server.shutdown()
        thread.join()


class _AlwaysFails(Plan):
    def __init__(self, fault: Fault) -> None:
        super().__init__(0, {})
        self.fault = fault

    def next_fault(self, method: str, path: str) -> PlannedFault | None:
        return PlannedFault(self.fault, 503)


def test_request_without_a_fault_is_forwarded_unchanged(upstream: tuple[int, type[_CountingHandler]]) -> None:
    port, handler = upstream
    with fault_proxy(port, Plan(0, {"POST": 0.0})) as proxy:
        assert requests.post(proxy.endpoint, data=b"0123456789", timeout=10).content == b"0123456789"
    assert handler.seen == 1


@pytest.mark.parametrize(
    ("fault", "reached", "outcome"),
    [
        (Fault.BEFORE, 0, 503),
        (Fault.AFTER, 1, 503),
        (Fault.DELAY, 1, 200),
        (Fault.CUT, 1, requests.exceptions.ConnectionError),
        (Fault.TRUNCATE, 1, requests.exceptions.ChunkedEncodingError),
    ],
)
def test_fault_occurs_before_or_after_the_effect(
    upstream: tuple[int, type[_CountingHandler]], fault: Fault, reached: int, outcome: int | type[Exception]
) -> None:
    port, handler = upstream
    with fault_proxy(port, _AlwaysFails(fault)) as proxy, requests.Session() as session:
        if isinstance(outcome, int):
            assert session.post(proxy.endpoint, data=b"0123456789", timeout=10).status_code == outcome
        else:
            with pytest.raises(outcome):
                session.post(proxy.endpoint, data=b"0123456789", timeout=10)
    assert handler.seen == reached


def test_plans_with_equal_seeds_return_equal_faults() -> None:
    plans = [Plan(7, {"GET": 0.3}), Plan(7, {"GET": 0.3})]
    faults = [[plan.next_fault("GET", f"/{number % 9}") for number in range(200)] for plan in plans]
    assert faults[0] == faults[1]
    assert any(faults[0])
    plans[0].disable()
    assert not any(plans[0].next_fault("GET", f"/{number}") for number in range(50))

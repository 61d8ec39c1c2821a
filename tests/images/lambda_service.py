"""As much of AWS Lambda as a function's image asks for: one event to be had, and a place for its answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Any

_VERSION = "2018-06-01"
_SECONDS = 120


@dataclass
class LambdaService:
    """Answers at `address`, which an image is told as AWS_LAMBDA_RUNTIME_API."""

    address: str
    events: SimpleQueue[str] = field(default_factory=SimpleQueue)
    answers: SimpleQueue[tuple[str, str]] = field(default_factory=SimpleQueue)

    def invoke(self, event: dict[str, Any]) -> Any:
        """What the function answers to an event."""
        self.events.put(json.dumps(event))
        try:
            kind, body = self.answers.get(timeout=_SECONDS)
        except Empty:
            raise AssertionError("the function asked for no event, or did not answer") from None
        assert kind == "response", f"{kind}: {body}"
        return json.loads(body)


@contextmanager
def lambda_service() -> Iterator[LambdaService]:
    """One that runs until the end of the block."""
    service = LambdaService("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The next event; waits for one."""
            body = service.events.get().encode()
            if not body:  # the end: who asked for an event, ends too
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("Lambda-Runtime-Aws-Request-Id", "1")
            self.send_header("Lambda-Runtime-Deadline-Ms", "9999999999999")
            self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-west-1:1:function:it")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            """…/invocation/1/response, …/invocation/1/error or …/init/error."""
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            service.answers.put((self.path.removeprefix(f"/{_VERSION}/runtime/").rpartition("/")[2], body))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.address = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        service.events.put("")
        server.shutdown()
        server.server_close()

"""An HTTP server on this machine for the length of a test, and what its handlers share.

Where it stands in a round: nowhere; it stands in for a server where a client of one is tested.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and writes JSON, and keeps silent on the terminal."""

    def log_message(self, *args: object) -> None:
        pass

    def body(self) -> Any:
        """The request's JSON."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def say(self, status: int, value: Any, raw: str | None = None) -> None:
        """Answers with `value` as JSON, or with `raw` as it is."""
        payload = (json.dumps(value) if raw is None else raw).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def event(self, value: Any) -> None:
        """One event of a stream."""
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())

    def hang_up(self) -> None:
        """Ends the connection without an answer."""
        self.close_connection = True
        self.connection.close()


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yields the address of a server that answers with `handler`, each request in a thread of its own."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()

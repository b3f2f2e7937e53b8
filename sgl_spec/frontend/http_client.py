"""HTTP to one SGLang server, with every failure turned into `ServerError` or `ServerUnavailable`.

Stands before the round: what it posts is what the server drafts for. Knows JSON and server-sent events, nothing of
programs or speculation. Safe to use from many threads: no connection is shared between calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import requests

from sgl_spec.errors import ConfigError, ServerError, ServerUnavailable

_CONNECT_SECONDS = 10.0
_LONGEST_MESSAGE = 2000


class HttpClient:
    """One server's address, key and patience.

    Args:
        url: `http://host:port`, without a path.
        api_key: sent as a bearer token when given.
        timeout: seconds to wait for the next byte of an answer.

    Raises:
        ConfigError: `url` is not http(s), or `timeout` is not positive.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"url: {url!r} is not an address like http://127.0.0.1:30000")
        if not timeout > 0:
            raise ConfigError(f"timeout: {timeout!r} is not a positive number of seconds")
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # A proxy configured for the outside world cannot reach a server on this machine.
        self._trust_env = parts.hostname not in ("127.0.0.1", "localhost", "::1")

    def get(self, path: str) -> Any:
        """The JSON answer to GET `path`, or its text when it is not JSON."""
        with self._answer("GET", path, None, stream=False) as response:
            return _body(response)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON answer to POST `path`, or its text when it is not JSON."""
        with self._answer("POST", path, body, stream=False) as response:
            return _body(response)

    def post_stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields each server-sent event's JSON until `[DONE]`; an error event or a broken stream raises."""
        with self._answer("POST", path, body, stream=True) as response:
            yield from self._events(path, response)

    def _events(self, path: str, response: requests.Response) -> Iterator[dict[str, Any]]:
        for line in response.iter_lines():
            if not line.startswith(b"data:"):
                continue
            payload = line[len(b"data:") :].strip()
            if payload == b"[DONE]":
                return
            yield self._event(path, payload)
        raise ServerUnavailable(f"{self.url}{path}: the stream ended before the server said it was done")

    def _event(self, path: str, payload: bytes) -> dict[str, Any]:
        try:
            event = json.loads(payload)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise ServerError(f"{self.url}{path}: an event in the stream is not a JSON object: {payload[:200]!r}")
        if "error" in event:
            message = error_message(event)
            raise ServerError(f"{self.url}{path}: the server said: {message}", server_message=message)
        return event

    @contextmanager
    def _answer(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, stream: bool
    ) -> Iterator[requests.Response]:
        try:
            with requests.Session() as session:
                session.trust_env = self._trust_env
                with session.request(
                    method,
                    self.url + path,
                    json=body,
                    headers=self._headers,
                    stream=stream,
                    timeout=(min(_CONNECT_SECONDS, self._timeout), self._timeout),
                ) as response:
                    self._check(path, response)
                    yield response
        except requests.RequestException as error:
            raise self._unavailable(path, error) from error

    def _check(self, path: str, response: requests.Response) -> None:
        if response.status_code < 400:
            return
        message = error_message(_body(response))
        raise ServerError(
            f"{self.url}{path}: the server answered {response.status_code}: {message}",
            status=response.status_code,
            server_message=message,
        )

    def _unavailable(self, path: str, error: requests.RequestException) -> ServerUnavailable:
        if isinstance(error, requests.ConnectTimeout):
            reason = "did not accept a connection in time"
        elif isinstance(error, requests.Timeout) or "timed out" in str(error).lower():
            reason = f"did not answer within {self._timeout:g} s (timeout= sets this)"
        elif isinstance(error, requests.ConnectionError) and "refused" in str(error).lower():
            reason = "refused the connection: is the server running?"
        else:
            reason = f"broke the connection: {error}"
        return ServerUnavailable(f"{self.url}{path}: {reason}")


def error_message(body: Any) -> str:
    """The server's own words in any of the shapes SGLang and FastAPI put them in; never empty."""
    if isinstance(body, dict):
        for key in ("error", "message", "detail"):
            if body.get(key):
                return error_message(body[key])
    text = body if isinstance(body, str) else json.dumps(body)
    return text.strip()[:_LONGEST_MESSAGE] or "(no message)"


def _body(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text

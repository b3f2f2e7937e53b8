"""The server's own words are found in every shape they come in; addresses are checked."""

from __future__ import annotations

import pytest

from sgl_spec.errors import ConfigError
from sgl_spec.frontend.http_client import HttpClient, error_message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "too long", "code": 400}}, "too long"),
        ({"error": "plain"}, "plain"),
        ({"object": "error", "message": "openai style"}, "openai style"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["n"], "msg": "bad"}]}, '[{"loc": ["n"], "msg": "bad"}]'),
        ("Internal Server Error\n", "Internal Server Error"),
        ("", "(no message)"),
        ({"other": 1}, '{"other": 1}'),
    ],
)
def test_error_message(body: object, message: str) -> None:
    assert error_message(body) == message


def test_a_huge_error_page_is_cut() -> None:
    assert len(error_message("x" * 100_000)) == 2000


@pytest.mark.parametrize("url", ["", "127.0.0.1:1", "http://", "unix:///x"])
def test_addresses_are_checked(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^url: .*http://127"):
        HttpClient(url)


def test_a_trailing_slash_does_no_harm() -> None:
    assert HttpClient("http://127.0.0.1:1/").url == "http://127.0.0.1:1"

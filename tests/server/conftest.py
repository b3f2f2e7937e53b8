"""Two servers for the whole tier: ours with speculation, and the same model without. Started once, at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import Server

from sgl_spec import Runtime

# Small pools: two servers and the tests share the machine.
SERVER_ARGS = {"max_total_tokens": 24_576, "random_seed": 1}


def _start(off: bool) -> Runtime:
    return Runtime(off=off, **SERVER_ARGS)


@pytest.fixture(scope="session")
def runtimes() -> Iterator[list[Runtime]]:
    with ThreadPoolExecutor(2) as pool:
        started = [pool.submit(_start, off) for off in (False, True)]
        runtimes = [future.result() for future in started]
    yield runtimes
    for runtime in runtimes:
        runtime.stop()


@pytest.fixture(scope="session")
def on(runtimes: list[Runtime]) -> Server:
    """The server that speculates."""
    return Server(runtimes[0].url)


@pytest.fixture(scope="session")
def off(runtimes: list[Runtime]) -> Server:
    """The same server started with --off."""
    return Server(runtimes[1].url)

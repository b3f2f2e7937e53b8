"""Two servers for the whole tier: ours with speculation, and the same model without. Started once, one after the other:
SGLang measures free memory while it starts, and another server starting meanwhile falsifies that.

Ours verifies all that is drafted: where a run is cut, or how many rounds a text takes, must not depend on how busy the
machine is. Servers that choose their widths by the clock are started by test_plain_launch, test_bundled_model and the
demo.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from client import Server

from sgl_spec import Runtime

# Small pools: two servers and the tests share the machine.
# Small chunks: the longer prompts are prefilled in several.
SERVER_ARGS = {
    "max_total_tokens": 24_576,
    "random_seed": 1,
    "chunked_prefill_size": 256,
    "enable_custom_logit_processor": True,
}


@pytest.fixture(scope="session")
def runtimes() -> Iterator[list[Runtime]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SGLSPEC_CONFIG", json.dumps({"adaptive": False}))
        ours = Runtime(off=False, **SERVER_ARGS)
    with ours, Runtime(off=True, **SERVER_ARGS) as stock:
        yield [ours, stock]


@pytest.fixture(scope="session")
def on(runtimes: list[Runtime]) -> Server:
    """The server that speculates."""
    return Server(runtimes[0].url)


@pytest.fixture(scope="session")
def off(runtimes: list[Runtime]) -> Server:
    """The same server started with --off."""
    return Server(runtimes[1].url)

"""These tests import SGLang. On a machine without an accelerator its CPU branches want the CPU platform's kernels, and
they look for them when they are imported: so the platform is installed before any test module is collected.

Also what the tests of the frontend share: a scripted server, and an `Endpoint` of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from fake_sglang_server import FakeServer, serving

from sgl_spec.platform_cpu.activate import activate

if TYPE_CHECKING:
    from sgl_spec.frontend.endpoint import Endpoint

activate()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer()) as one:
        yield one


@pytest.fixture
def endpoint(server: FakeServer) -> Endpoint:
    from sgl_spec.frontend.endpoint import Endpoint

    return Endpoint(server.url, chat_template="chatml")

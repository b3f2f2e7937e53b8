"""The table of SGLang names: all there in the pinned version, and a change is noticed and named."""

from __future__ import annotations

import pytest

from sgl_spec.server import sglang_contract
from sgl_spec.server.sglang_contract import CALL, READ, Name


def test_the_installed_sglang_has_every_name() -> None:
    assert [row for row in sglang_contract.check_contract() if not row.ok] == []


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        (Name("sglang.srt.nowhere:Thing", CALL), "not found"),
        (Name("sglang.srt.layers.sampler:no_such_function", CALL), "not found"),
        (Name("sglang.srt.layers.sampler:register_sampler_backend", CALL, ("colour",)), "has no parameter colour"),
        (Name("sglang.srt.managers.schedule_batch:Req", READ, ("shoe_size",)), "has no attribute shoe_size"),
    ],
)
def test_a_change_is_noticed(monkeypatch: pytest.MonkeyPatch, name: Name, detail: str) -> None:
    monkeypatch.setattr(sglang_contract, "CONTRACT", (name,))
    (broken,) = [row for row in sglang_contract.check_contract() if not row.ok]
    assert detail in broken.detail
    assert name.path in sglang_contract.refusal([broken])


def test_another_version_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sglang_contract.metadata, "version", lambda _: "0.5.24")
    first = sglang_contract.check_contract()[0]
    assert not first.ok
    assert "found 0.5.24, wanted 0.5.23" in first.detail

"""The drafters of a server: with a tokenizer and without, and those a user names in the configuration."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from sgl_spec import ConfigError, SpecConfig
from sgl_spec.drafting.drafter import Drafter, DraftRequest
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.drafting.tree import Chain
from sgl_spec.server.codec import ServerCodec
from sgl_spec.server.drafters import Target, load_drafter, make_planner
from sgl_spec.testing.small_tokenizers import byte_level

TOKENIZER = byte_level()
CODEC = ServerCodec(TOKENIZER, len(TOKENIZER))


class Beyond(Drafter):
    """Proposes a token that the model does not have."""

    origin = "beyond"

    def propose(self, rid: str, max_tokens: int) -> list[Chain]:
        return [Chain((len(TOKENIZER),), (0.9,), "beyond")]


class Deaf:
    """Lacks most of what a drafter has."""

    origin = "deaf"

    def propose(self, rid: str, max_tokens: int) -> Sequence[Chain]:
        return []


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = ModuleType("my_drafters")
    mine.Beyond, mine.Deaf, mine.number = Beyond, Deaf, 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_drafters", mine)


@pytest.mark.parametrize("codec", [CODEC, None], ids=["tokenizer", "none"])
def test_no_token_beyond_the_model_is_planned(codec: ServerCodec | None) -> None:
    config = SpecConfig(drafters=("my_drafters:Beyond",))
    planner = make_planner(config, Target(len(TOKENIZER), codec), 16, None)
    planner.start(DraftRequest("r", [1, 2, 3]))
    assert planner.plan("r", 3, 100).abstain_reason == "drafter_error"
    assert [failed.origin for failed in planner.failures] == ["beyond"]


@pytest.mark.parametrize("codec", [CODEC, None], ids=["tokenizer", "none"])
@pytest.mark.parametrize("memory", [OutputMemory(1024, 256), None], ids=["memory", "none"])
def test_lookup_and_memory_need_no_tokenizer(codec: ServerCodec | None, memory: OutputMemory | None) -> None:
    planner = make_planner(SpecConfig(), Target(len(TOKENIZER), codec), 16, memory)
    for rid in ("first", "second"):
        planner.start(DraftRequest(rid, [5, 6, 7, 8, 5, 6], "p", "s"))
        tree = planner.plan(rid, 6, 100).tree
        planner.finish(rid, [7, 8, 9])
        planner.stop(rid)
    assert tree.num_drafts > 0
    assert any("memory" in origins for origins in tree.origins) == (memory is not None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Thing", "'no_such_module:Thing' cannot be made: ModuleNotFoundError"),
        ("my_drafters:Nothing", "cannot be made: AttributeError"),
        ("my_drafters:number", "cannot be made: TypeError"),
        ("my_drafters:Deaf", "has no start, observe, finish, notes, stop; name sgl_spec.drafting.drafter.Drafter"),
    ],
)
def test_what_is_no_drafter_is_refused_at_the_start(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_drafter(name)


def test_a_drafter_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(Beyond, "__init__", lambda self: made.append(self))
    assert load_drafter("my_drafters:Beyond") is made[0]

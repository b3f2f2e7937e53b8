"""Sampling down the accepted path, candidates only, and sampling every node at once give the same tokens; the second
asks the device nothing, and launches as much for many rows as for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from sampling_world import NO_TOP_K, Verify, likely_children, on_the_path, random_tree, row_of, verifies
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from sgl_spec.drafting.acceptance import accept_sampled
from sgl_spec.server import sampling
from sgl_spec.server.sampling import RowParams, node_targets, tokens_at_once, tokens_by_candidates

VOCABULARY = 60


def _params(rng: np.random.Generator, requests: int) -> RowParams:
    return RowParams(
        torch.tensor(rng.choice([0.5, 1.0, 1.5], requests), dtype=torch.float32),
        torch.tensor(rng.choice([1, 5, NO_TOP_K], requests)),
        torch.tensor(rng.choice([0.7, 1.0], requests), dtype=torch.float32),
        torch.tensor(rng.choice([0.0, 0.05], requests), dtype=torch.float32),
        torch.tensor(rng.integers(-(2**62), 2**62, requests)),
    )


def _verify(case: int, requests: int, width: int, vocabulary: int = VOCABULARY) -> Verify:
    rng = np.random.default_rng(case)
    trees, params = [random_tree(rng, width, vocabulary) for _ in range(requests)], _params(rng, requests)
    logits = torch.tensor(rng.normal(0, 3, (requests * width, vocabulary)), dtype=torch.float32)
    likely_children(logits, trees)
    depths = torch.from_numpy(np.stack([tree.depths for tree in trees]))
    positions = (torch.tensor(rng.integers(1, 500, requests))[:, None] + depths).flatten()
    return Verify(logits, params, positions, trees)


@pytest.mark.parametrize("case", range(30))
def test_both_ways_commit_what_the_oracle_commits(case: int) -> None:
    verify = _verify(case, 1 + case % 4, 1 + case % 11)
    logits, params, positions, trees = verify
    width = trees[0].width
    paths = [on_the_path(verify, node_targets(*verify, lazily=lazily)) for lazily in (True, False)]
    for request, tree in enumerate(trees):
        path = accept_sampled(
            tree, logits[request * width : (request + 1) * width].numpy(), int(params.seed[request]),
            int(positions[request * width]), float(params.temperature[request]), int(params.top_k[request]),
            float(params.top_p[request]), float(params.min_p[request]),
        )  # fmt: skip
        assert paths[0][request] == paths[1][request] == list(path.tokens)


@given(verifies())
def test_both_ways_choose_the_same_tokens(verify: Verify) -> None:
    before = verify.logits.clone()
    lazy, dense = (node_targets(*verify, lazily=lazily) for lazily in (True, False))
    assert on_the_path(verify, lazy) == on_the_path(verify, dense)
    assert bool(((dense >= 0) & (dense < verify.logits.shape[1])).all())
    assert torch.equal(verify.logits.nan_to_num(nan=7.0), before.nan_to_num(nan=7.0))


@pytest.mark.parametrize("kind", ["normal", "coarse", "equal"])
@pytest.mark.parametrize(
    "params", [(1.0, NO_TOP_K, 1.0), (0.8, NO_TOP_K, 0.95), (1.0, 50, 0.3), (3.0, 2, 1.0)], ids=str
)
def test_both_ways_agree_on_whole_vocabularies(kind: str, params: tuple[float, int, float]) -> None:
    rng, rows = np.random.default_rng(5), 6
    logits = torch.from_numpy(np.stack([row_of(kind, rng, 49_152) for _ in range(rows)]))
    temperature, top_k, top_p = params
    row = RowParams(
        torch.full((rows,), temperature), torch.full((rows,), top_k), torch.full((rows,), top_p), torch.zeros(rows),
        torch.arange(rows),
    )  # fmt: skip
    positions = torch.arange(rows) + 100
    assert torch.equal(tokens_by_candidates(logits, row, positions), tokens_at_once(logits, row, positions))


def test_what_the_host_knows_only_saves_work() -> None:
    verify = _verify(3, 4, 1)
    greedy = verify.params._replace(top_k=torch.ones(4, dtype=torch.int64))
    plain = verify.params._replace(top_k=torch.full((4,), NO_TOP_K), top_p=torch.ones(4))
    for way in (tokens_by_candidates, tokens_at_once):
        for params, known in ((greedy, {"all_greedy": True}), (plain, {"ranked": False})):
            tokens = way(verify.logits, params, verify.positions)
            assert torch.equal(tokens, way(verify.logits, params._replace(**known), verify.positions))


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    verify = _verify(4, 7, 3)
    whole = node_targets(*verify, lazily=False)
    for size in (1, VOCABULARY * 4, VOCABULARY * 20):
        monkeypatch.setattr(sampling, "_AT_ONCE", size)
        assert torch.equal(node_targets(*verify, lazily=False), whole)


@pytest.mark.parametrize("way", [tokens_by_candidates, tokens_at_once])
def test_a_row_that_is_broken_gives_a_token_and_one_with_an_infinite_bias_gives_its_token(way: Any) -> None:
    logits = torch.randn(4, VOCABULARY, generator=torch.Generator().manual_seed(0))
    logits[0], logits[1], logits[2, 17], logits[3, 17] = float("nan"), -torch.inf, torch.inf, torch.nan
    params = _params(np.random.default_rng(0), 4)._replace(top_k=torch.full((4,), 5))
    tokens = way(logits, params, torch.arange(4))
    assert ((tokens >= 0) & (tokens < VOCABULARY)).all()
    assert tokens[2] == 17
    assert tokens[3] != 17


# ---- not a word between host and device --------------------------------------------------------------------------

aten = torch.ops.aten
TALKS = {
    aten._local_scalar_dense.default, aten.item.default, aten.nonzero.default, aten.masked_select.default,
    aten.is_nonzero.default, aten.equal.default, aten._unique2.default, aten.bincount.default,
    aten.repeat_interleave.Tensor,
}  # fmt: skip


class Silence(TorchDispatchMode):
    """Counts operations, and fails on one whose result the host must wait for, or that moves data between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        assert func not in TALKS, f"{func} waits for the device"
        if func in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default):
            assert all(i is None or i.dtype not in (torch.bool, torch.uint8) for i in args[1]), f"{func} by a mask"
        if func in (aten._to_copy.default, aten.copy_.default):
            assert kwargs.get("device", args[0].device) == args[0].device, f"{func} to another device"
        made_on_host = func in (aten.lift_fresh.default, aten.lift_fresh_copy.default)
        assert not made_on_host, "torch.tensor(...) copies from the host"
        self.count += 1
        return func(*args, **kwargs)


def _operations(requests: int, width: int) -> int:
    """How many operations a tree costs on a device that is only pretended: a question to it raises."""
    verify = _verify(1, requests, width)
    given = (verify.logits, verify.positions, *verify.params[:5])
    with FakeTensorMode(), Silence() as silence:
        logits, positions, *params = (torch.empty(v.shape, dtype=v.dtype, device="cuda") for v in given)
        silence.count = 0
        targets = node_targets(logits, RowParams(*params), positions, verify.trees)
        assert (targets.device.type, targets.dtype, len(targets)) == ("cuda", torch.int64, requests * width)
    return silence.count


def test_a_device_is_asked_nothing_and_launches_as_much_for_any_number_of_rows() -> None:
    counts = {_operations(requests, width) for requests, width in ((1, 1), (1, 16), (3, 5), (8, 16))}
    assert len(counts) == 1
    assert counts.pop() < 250


TALK = [
    lambda x: x.sum().item(),
    lambda x: bool((x > 0).any()),
    lambda x: x[x > 0],
    lambda x: (x > 0).nonzero(),
    lambda x: x.masked_select(x > 0),
    lambda x: x[0].tolist(),
    lambda x: x.index_put_((x > 0,), torch.zeros(())),
    lambda x: x.to("cpu"),
    lambda x: x + torch.tensor(1.0, device="cuda"),
    lambda x: torch.equal(x, x),
    lambda x: x.repeat_interleave(x[0].long(), dim=1),
]


@pytest.mark.parametrize("talk", TALK)
def test_silence_hears_a_word(talk: Any) -> None:
    with FakeTensorMode():
        values = torch.ones(2, 3, device="cuda")
        with Silence(), pytest.raises((AssertionError, DataDependentOutputException)):
            talk(values)


def test_the_lazy_way_is_not_silent() -> None:
    """So the test above would notice if it ran on the CPU's path."""
    with Silence(), pytest.raises(AssertionError):
        node_targets(*_verify(1, 2, 3), lazily=True)

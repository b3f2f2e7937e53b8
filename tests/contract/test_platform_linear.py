"""Linear layers: equal to their twin, and each row's bits independent of the rows computed with it."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch

from sgl_spec.platform_cpu import linear, reference

DTYPES = (torch.bfloat16, torch.float32)
# [outputs, inputs]: the bundled model's layers, a wide vocabulary, and sizes that are multiples of nothing.
SHAPES = ((576, 576), (960, 576), (3072, 576), (576, 1536), (9000, 128), (100, 77), (33, 1001), (1, 5))
ROWS = 170
WINDOWS = 40


def tensors(dtype: torch.dtype, outputs: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows, weight and bias, not the ones a probe uses."""
    generator = torch.Generator().manual_seed(outputs * 10007 + inputs)
    rows = torch.randn(ROWS, inputs, generator=generator)
    weight = torch.randn(outputs, inputs, generator=generator) / inputs**0.5
    return rows.to(dtype), weight.to(dtype), torch.randn(outputs, generator=generator).to(dtype)


def windows(seed: int) -> list[slice]:
    """Single rows and random runs of rows, at random places."""
    rng = random.Random(seed)
    counts = [1] * 10 + [rng.randint(2, ROWS) for _ in range(WINDOWS)]
    starts = [rng.randint(0, ROWS - count) for count in counts]
    return [slice(start, start + count) for start, count in zip(starts, counts, strict=True)]


def assert_rows_are_their_own(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
    whole = linear.linear(x, weight, bias)
    for window in windows(seed=weight.shape[0]):
        assert torch.equal(linear.linear(x[window], weight, bias), whole[window]), window
    shuffled = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    assert torch.equal(linear.linear(x[shuffled], weight, bias), whole[shuffled])


@pytest.fixture
def no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if probing had found no rule safe for any shape."""
    monkeypatch.setattr(linear, "RULES", ())
    monkeypatch.setattr(linear, "_rules", {})


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_linear_equals_its_twin(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    x, weight, bias = tensors(dtype, *shape)
    rtol, atol = (2.0**-7, 2e-3) if dtype == torch.bfloat16 else (1e-5, 1e-5)
    for part, with_bias in ((x[:1], None), (x[:20], bias), (x[:12].view(3, 4, -1), bias), (x[:0], None)):
        fast, slow = (f(part, weight, with_bias) for f in (linear.linear, reference.linear))
        torch.testing.assert_close(fast, slow, rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_row_has_the_same_bits_in_any_window(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    x, weight, bias = tensors(dtype, *shape)
    assert_rows_are_their_own(x, weight)
    assert_rows_are_their_own(x, weight, bias)


@pytest.mark.usefixtures("no_rules")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_a_safe_rule_single_rows_are_exact(
    dtype: torch.dtype, shape: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    x, weight, bias = tensors(dtype, *shape)
    assert_rows_are_their_own(x, weight, bias)
    rtol, atol = (2.0**-7, 2e-3) if dtype == torch.bfloat16 else (1e-5, 1e-5)
    torch.testing.assert_close(linear.linear(x[:20], weight), reference.linear(x[:20], weight), rtol=rtol, atol=atol)
    warnings = [record for record in caplog.records if "no row count is bitwise safe" in record.message]
    assert len(warnings) == 1, "said once per shape"


def test_an_unsafe_rule_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix library whose single rows differ in the last bit: rules that let one row through are passed over."""
    multiply = torch.nn.functional.linear

    def careless(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        out = multiply(x.double(), weight.double()).to(x.dtype)
        return torch.nextafter(out, out + 1) if len(x) < 4 else out

    monkeypatch.setattr(linear.F, "linear", careless)
    monkeypatch.setattr(linear, "_rules", {})
    x, weight, _ = tensors(torch.float32, 33, 77)

    assert linear.probe(weight) == linear.PadRule(4, 1)
    assert_rows_are_their_own(x, weight)


def test_sixteen_at_a_time_is_a_rule_like_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken where it is found safe, and only there: with one output a row's place among the 16 may decide its bits."""
    sixteen = linear.PadRule(16, 16, at_once=16)
    monkeypatch.setattr(linear, "RULES", (sixteen,))
    monkeypatch.setattr(linear, "_rules", {})
    for shape in SHAPES:
        x, weight, bias = tensors(torch.float32, *shape)
        assert_rows_are_their_own(x, weight, bias)
        assert linear.pad_rule(weight) in (sixteen, linear.ONE_BY_ONE)
    assert sixteen in linear._rules.values()


def test_a_rule_says_how_many_rows_are_computed() -> None:
    assert [linear.PadRule(1, 1).padded(n) for n in (1, 2, 17)] == [1, 2, 17]
    assert [linear.PadRule(4, 1).padded(n) for n in (1, 4, 5)] == [4, 4, 5]
    assert [linear.PadRule(8, 8).padded(n) for n in (1, 8, 9)] == [8, 8, 16]


def test_a_shape_is_probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[torch.Tensor] = []
    monkeypatch.setattr(linear, "_rules", {})
    monkeypatch.setattr(linear, "probe", lambda weight: probed.append(weight) or linear.PadRule(1, 1))
    for dtype in (torch.float32, torch.float32, torch.bfloat16):
        linear.linear(torch.ones(2, 8, dtype=dtype), torch.ones(3, 8, dtype=dtype))
    assert [weight.dtype for weight in probed] == [torch.float32, torch.bfloat16]


def test_the_hook_leaves_amx_layers_alone() -> None:
    x, weight, bias = tensors(torch.float32, 5, 7)
    calls: list[tuple[object, ...]] = []
    stock = lambda *args: calls.append(args) or x  # noqa: E731

    out = linear.apply_hook(stock, "method", SimpleNamespace(weight=weight), x, bias)
    torch.testing.assert_close(out, reference.linear(x, weight, bias), rtol=1e-5, atol=1e-5)
    assert calls == []
    amx = SimpleNamespace(weight=weight, use_intel_amx_backend=True)
    assert linear.apply_hook(stock, "method", amx, x, bias) is x
    assert calls == [("method", amx, x, bias)]


def test_the_lm_head_hook_gives_each_row_its_own_bits() -> None:
    x, weight, _ = tensors(torch.float32, 9000, 128)
    head = SimpleNamespace(weight=weight)

    def stock(
        processor: str, hidden: torch.Tensor, lm_head: SimpleNamespace, bias: None, **kwargs: object
    ) -> torch.Tensor:
        assert (processor, kwargs) == ("processor", {})
        return torch.nn.functional.linear(hidden, lm_head.weight)

    whole = linear.lm_head_hook(stock, "processor", x, head, None, out=torch.empty(ROWS, 9000))
    assert whole.shape == (ROWS, 9000)
    for window in windows(seed=3):
        assert torch.equal(linear.lm_head_hook(stock, "processor", x[window], head, None), whole[window])

"""Activations: each row's bits are its own, however many rows there are and however many threads divide them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from sglang.srt.layers.activation import GeluAndMul, SiluAndMul

from sgl_spec.platform_cpu import activation

# Rows of 2 * columns numbers; at 1000 and 1368 torch's shares end within a row, and 40000 is more than one share.
COLUMNS = (100, 1000, 1368, 1536, 40000)
ROWS = (1, 2, 3, 7, 16, 33, 86, 100, 200)


@pytest.fixture(params=[1, 2, 3, 5, 7, 16])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


class _Gelu:
    """As much of a GeluAndMul as its forward_native reads."""

    approximate = "tanh"


def silu_and_mul(x: torch.Tensor) -> torch.Tensor:
    return activation.native_hook(SiluAndMul.forward_native, None, x)


def gelu_and_mul(x: torch.Tensor) -> torch.Tensor:
    return activation.native_hook(GeluAndMul.forward_native, _Gelu(), x)


ACTIVATIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (silu_and_mul, gelu_and_mul)


def rows_of(columns: int, dtype: torch.dtype, count: int) -> torch.Tensor:
    return (torch.randn(count, 2 * columns, generator=torch.Generator().manual_seed(columns)) * 3).to(dtype)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("activate", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_row_has_the_same_bits_among_any_number(
    columns: int, dtype: torch.dtype, activate: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    counts = [count for count in ROWS if count * columns < 1_000_000]
    x = rows_of(columns, dtype, counts[-1])
    alone = torch.cat([activate(x[row : row + 1]) for row in range(len(x))])
    for count in counts:
        assert torch.equal(activate(x[:count]), alone[:count]), count
        assert torch.equal(activate(x[-count:]), alone[-count:]), count


@pytest.mark.parametrize("columns", COLUMNS)
def test_values_and_shapes(columns: int) -> None:
    x = rows_of(columns, torch.float32, 24)
    gate, up = x.double().chunk(2, -1)
    wanted = {silu_and_mul: gate / (1 + torch.exp(-gate)) * up,
              gelu_and_mul: torch.nn.functional.gelu(gate, approximate="tanh") * up}  # fmt: skip
    for activate, exact in wanted.items():
        torch.testing.assert_close(activate(x), exact.float(), rtol=1e-4, atol=1e-5)
        assert torch.equal(activate(x.view(2, 3, 4, -1)), activate(x).view(2, 3, 4, -1))
        assert activate(x[:0]).shape == (0, columns)

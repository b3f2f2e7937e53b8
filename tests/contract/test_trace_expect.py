"""`expect` returns the same gen with its shape, and says what is wrong with a shape that cannot be."""

from __future__ import annotations

import copy

import pytest
import sglang as sgl

from sgl_spec import ConfigError, expect
from sgl_spec.frontend.expect import shape_of
from sgl_spec.frontend.read_function import read_function


def test_the_same_expression_comes_back_with_its_shape() -> None:
    gen = sgl.gen("verdict", max_tokens=60, stop="\n")
    assert expect(gen, "Because ", ..., ".\nVerdict: ", ["Yes", "No"]) is gen
    assert shape_of(gen) == ("Because ", ..., ".\nVerdict: ", ("Yes", "No"))
    assert shape_of(sgl.gen("other")) is None
    assert shape_of("text") is None


def test_the_shape_survives_copies_and_expressions() -> None:
    gen = expect(sgl.gen("x"), "a", ...)
    assert shape_of(copy.copy(gen)) == shape_of(copy.deepcopy(gen)) == ("a", ...)
    inside = ("text" + gen + "more").expr_list[1]
    assert shape_of(inside) == ("a", ...)
    assert shape_of(expect(gen, "b")) == ("b",)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((), "1 to 64 parts, not 0"),
        (("a",) * 65, "1 to 64 parts, not 65"),
        (("a", ..., ...), r"parts 2 and 3 are both free text"),
        (("a", 3), "part 2 is 3; a part is a str"),
        ((None,), "part 1 is None"),
        (("",), "part 1 is or has an empty text"),
        ((["a", ""],), "part 1 is or has an empty text"),
        (("a", ["b", "\udc00"]), "part 2 is .*half a surrogate pair"),
        ((["a", 1],), "part 1 is 1;"),
        (([],), "part 1 has no alternatives"),
        (({"a"},), "part 1 is {'a'}"),
        (("a" * 9_000, ["b" * 7_001]), "at most 16,000 characters, not 16,001"),
    ],
)
def test_a_shape_that_cannot_be(shape: tuple[object, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^expect: .*{message}"):
        expect(sgl.gen("x"), *shape)


@pytest.mark.parametrize("other", [sgl.select("x", ["a", "b"]), "text", None, sgl.user("a")])
def test_only_a_gen_has_a_shape(other: object) -> None:
    with pytest.raises(ConfigError, match=f"not {type(other).__name__}"):
        expect(other, "a")


def test_a_shape_of_the_largest_size() -> None:
    expect(sgl.gen("x"), *["a", ...] * 32)
    expect(sgl.gen("x"), "a" * 16_000)


@sgl.function
def shaped(s, name):
    s += expect(sgl.gen("a"), "Dear ", ["Ann", "Bob"], ...) + expect(sgl.gen("b"), "Dear ", name)


def test_the_graph_carries_the_shape_or_says_that_it_varies() -> None:
    first, second = read_function(shaped).nodes.values()
    assert (first.shape, first.varying) == (("Dear ", ("Ann", "Bob"), ...), ())
    assert (second.shape, second.varying) == ((), ("shape",))

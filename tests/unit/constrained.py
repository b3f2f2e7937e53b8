"""What tests of constrained drafting share: languages, and a request decoded in rounds with every tree looked at."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.grammar.constraint_drafter import ConstraintDrafter
from sgl_spec.drafting.grammar.text_writer import path_to
from sgl_spec.drafting.grammar.vocabulary import Vocabulary
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.testing.fake_codec import FakeCodec
from sgl_spec.testing.fake_grammar import FakeCursor, FakeGrammar, Free, Literal, OneOf, Part, Space

LETTERS = bytes(range(97, 123)) + b"QEZ 0123456789"
SHEET = (
    Literal(b'{"name": "'),
    Free(LETTERS, 1, 12),
    Literal(b'",\n "house": "'),
    OneOf((b"Gryffindor", b"Hufflepuff", b"Slytherin")),
    Literal(b'",\n "wand": "'),
    OneOf((b"yew", b"holly", b"none")),
    Literal(b'"}'),
)
CALL = (
    *(Literal(b"{"), Space(), Literal(b'"name"'), Space(), Literal(b":"), Space(), Literal(b'"area"'), Space()),
    *(Literal(b","), Space(), Literal(b'"base"'), Space(), Literal(b":"), Space(), Free(b"0123456789", 1, 3), Space()),
    OneOf(
        (b"", (Literal(b","), Space(), Literal(b'"unit"'), Space(), Literal(b":"), Space(), Literal(b'"cm"'), Space()))
    ),
    Literal(b"}"),
)
UNICODE = (
    Literal("größe: ".encode()),
    OneOf(("名前".encode(), "名字".encode(), "ä".encode(), "ö".encode())),
    Literal("é.".encode()),
    OneOf((b"", b"x", b"xy")),
)
LANGUAGES: tuple[tuple[Part, ...], ...] = (SHEET, CALL, UNICODE)

_texts = st.text('ab"{}:, é名', min_size=1, max_size=5).map(str.encode)
_simple = st.one_of(
    st.builds(Literal, _texts),
    st.builds(Space, st.integers(1, 4)),
    st.builds(Free, st.just(LETTERS), st.integers(0, 2), st.integers(2, 4)),
    st.builds(Free, st.just(b"0123456789"), st.integers(1, 2), st.integers(2, 3)),
)
_choices = st.lists(st.one_of(_texts, st.just(b""), st.tuples(_simple, _simple)), min_size=1, max_size=4)
languages = st.one_of(
    st.sampled_from(LANGUAGES),
    st.lists(st.one_of(_simple, st.builds(OneOf, _choices.map(tuple))), min_size=1, max_size=5).map(tuple),
)
words = st.lists(_texts.filter(lambda text: len(text) > 1), max_size=8, unique=True)
_USUAL = (
    b'":',
    b' "',
    b'",',
    b'{"',
    b'"}',
    b"name",
    b"house",
    b"Gry",
    b"ffin",
    b"dor",
    b"Huff",
    b" wand",
    b"12",
    b"yew",
)


def codec_for(extra: Sequence[bytes] = (), **options: bytes) -> FakeCodec:
    return FakeCodec(dict.fromkeys((*_USUAL, *extra)), **options)


def drafter_for(codec: FakeCodec, past: Sequence[Sequence[int]] = (), min_a: float = 0.02) -> ConstraintDrafter:
    return ConstraintDrafter(
        codec, Vocabulary(codec.texts), lambda request: past, lambda request: (request.owner, request.slot), min_a
    )


class Decoded(NamedTuple):
    """A request's output, the rounds it took, and how many drafts of each origin were accepted of those reached."""

    tokens: list[int]
    rounds: int
    reached: dict[str, int]
    accepted: dict[str, int]


class Request:
    """One request, decoded in rounds of which every tree is checked."""

    def __init__(self, drafter: ConstraintDrafter, grammar: FakeGrammar, prompt: Sequence[int] = (), **names: str):
        self.drafter, self.grammar, self.codec = drafter, grammar, grammar.codec
        endings = frozenset([self.codec.ending])
        drafter.start(DraftRequest("r", prompt, endings=endings, constraint=grammar, **names))

    def draft(self, chains: Sequence[Chain] = (), max_tokens: int = 15) -> DraftTree:
        tree = DraftTree(0)
        if not self.drafter.begin_round("r"):
            return tree
        for chain in chains:
            allowed = self.drafter.cut("r", chain.tokens)
            if allowed:
                tree.graft(Chain(chain.tokens[:allowed], chain.q[:allowed], chain.origin))
        self.drafter.extend("r", tree, max_tokens)
        cursor = self.grammar.cursors[-1]
        assert cursor.depth == 0
        self.check(tree)
        return tree

    def check(self, tree: DraftTree) -> None:
        """Nothing forbidden, and what is called forced is all there is."""
        for node in range(1, len(tree)):
            *before, token = path_to(tree, node)
            cursor = self.grammar.cursor()
            assert cursor is not None
            assert all(map(cursor.accept, before))
            mask = cursor.mask
            assert token in mask
            assert 0.0 < tree.q[node] <= 1.0
            if "grammar.forced" in tree.origins[node]:
                assert mask == [token]
            assert token != self.codec.ending or "other" in tree.origins[node]

    def commit(self, tokens: Sequence[int]) -> None:
        assert all(map(self.grammar.commit, tokens))
        self.drafter.observe("r", tokens)

    def decode(
        self,
        choose: Callable[[list[int]], int],
        chains: Callable[[], Sequence[Chain]] = lambda: (),
        most: int = 80,
    ) -> Decoded:
        """Decode to the ending, or `most` tokens; `choose` is the model: it picks from the mask."""
        output: list[int] = []
        rounds = 0
        reached: dict[str, int] = {}
        accepted: dict[str, int] = {}
        while self.codec.ending not in output and len(output) < most:
            tree = self.draft(chains())
            rounds += 1
            node, new = 0, []
            target = self.grammar.cursor()
            assert target is not None
            while True:
                token = choose(target.mask)
                target.accept(token)
                new.append(token)
                below = [child for child in range(1, len(tree)) if tree.parents[child] == node]
                for child in below:
                    _count(reached, tree, child)
                node = next((child for child in below if tree.tokens[child] == token), -1)
                if node < 0 or token == self.codec.ending:
                    break
                _count(accepted, tree, node)
            self.commit(new)
            output += new
        return Decoded(output, rounds, reached, accepted)


def _count(counts: dict[str, int], tree: DraftTree, node: int) -> None:
    for origin in tree.origins[node]:
        counts[origin] = counts.get(origin, 0) + 1


def at_random(seed: int) -> Callable[[list[int]], int]:
    """A model that writes anything the mask allows."""
    dice = random.Random(seed)
    return lambda mask: dice.choice(mask)


def writer(codec: FakeCodec, text: bytes) -> Callable[[list[int]], int]:
    """A model that writes `text` in its tokenizer's way, then ends."""
    tokens = iter([*codec.encode_bytes(text), codec.ending])

    def choose(mask: list[int]) -> int:
        token = next(tokens)
        assert token in mask
        return token

    return choose


def walk(cursor: FakeCursor, codec: FakeCodec, choose: Callable[[list[int]], int], most: int) -> list[int]:
    """Tokens the grammar allows one after the other."""
    tokens: list[int] = []
    while not cursor.ended and len(tokens) < most:
        tokens.append(choose(cursor.mask))
        cursor.accept(tokens[-1])
    return tokens

"""What a client declares about an output: texts, alternatives, and holes between them, and which tokens these texts
would be. Made before a request's first round, from the hint's `shape`.

A declared text has no tokens of its own. Which ones the model writes depends on what stands before it, and its last
characters may become one token with what follows in a hole: of "Because " the model writes "Because", then " it".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sgl_spec.drafting.hint import ShapePart
from sgl_spec.drafting.text_codec import TextCodec, continuation
from sgl_spec.drafting.tree import Chain

# Stand for what a hole may begin with, to see which tokens before it stay as they are.
PROBES = ("a", "The", "1", '"')
# A text followed by alternatives is tokenised with each; so many texts are at most looked at from one place.
MAX_TEXTS = 8
MAX_REMEMBERED = 1_024


class Likely(NamedTuple):
    """A token and P(it is written so | its text comes next)."""

    token: int
    q: float


class DeclaredShape:
    """The parts of a shape, two holes or two texts in a row made one, and their tokens.

    Args:
        parts: as in the hint.
        codec: of the target's tokenizer.
    """

    def __init__(self, parts: Sequence[ShapePart], codec: TextCodec) -> None:
        self.parts = _joined(parts)
        self.codec = codec
        # By part, the bytes with which it may begin; one past the last part there are none.
        self.beginnings = (*(frozenset(text[0] for text in texts) for texts in self.parts), frozenset[int]())
        self.drafted: dict[object, list[Chain]] = {}  # kept by its cursors, by all that decides what is drafted
        self._tokens: dict[tuple[object, bytes, bool], tuple[Likely, ...]] = {}

    def texts_from(self, part: int) -> list[bytes]:
        """The texts an output may have from a part on, up to the next hole or the end; one empty text if there are
        none."""
        texts = [b""]
        while part < len(self.parts) and self.parts[part]:
            texts = [before + one for before in texts for one in self.parts[part]][:MAX_TEXTS]
            part += 1
        return texts

    def hole_after(self, part: int) -> bool:
        """Whether a hole comes after `part`."""
        return any(not texts for texts in self.parts[part:])

    def kind(self, before: tuple[int, ...]) -> str:
        """The kind of character with which the last of the tokens `before` ends."""
        last = self.codec.token_bytes(before[-1])[-1:] if before else b""
        return "letter" if last.isalpha() or last >= b"\x80" else "digit" if last.isdigit() else last.decode()

    def tokens(self, before: tuple[int, ...], text: bytes, *, open_end: bool, alike: bool) -> tuple[Likely, ...]:
        """The tokens of `text` after the tokens `before`; none where it begins inside a character.

        Args:
            before: the last few tokens of the output.
            text: as bytes.
            open_end: whether more will follow it, of which nothing is known.
            alike: take those after a text that ends in the same kind of character, if they are known. For guesses
                at the end of a hole, which are made anew after each of its tokens.
        """
        key = (self.kind(before) if alike else before, text, open_end)
        known = self._tokens.get(key)
        if known is None:
            if len(self._tokens) >= MAX_REMEMBERED:
                self._tokens.clear()
            known = self._tokens[key] = self._tokenised(before, text, open_end)
        return known

    def _tokenised(self, before: tuple[int, ...], text: bytes, open_end: bool) -> tuple[Likely, ...]:
        try:
            whole = text.decode()
        except UnicodeDecodeError:
            return ()
        tokens = continuation(self.codec, before, whole)
        if not open_end:
            return tuple(Likely(token, 1.0) for token in tokens)
        others = [continuation(self.codec, before, whole + probe) for probe in PROBES]
        likely = []
        for place, token in enumerate(tokens):
            others = [other for other in others if other[place : place + 1] == [token]]
            if not others:
                break
            likely.append(Likely(token, len(others) / len(PROBES)))
        return _conditional(likely)


def _conditional(likely: Sequence[Likely]) -> tuple[Likely, ...]:
    """From P(a token and those before) to P(a token | those before)."""
    before = [1.0, *(one.q for one in likely)]
    return tuple(Likely(one.token, one.q / given) for one, given in zip(likely, before, strict=False))


def _joined(parts: Sequence[ShapePart]) -> tuple[tuple[bytes, ...], ...]:
    """Each part as its texts; a hole has none."""
    joined: list[tuple[bytes, ...]] = []
    for part in parts:
        texts = () if part is None else tuple(one.encode() for one in ((part,) if isinstance(part, str) else part))
        if joined and len(texts) == len(joined[-1]) <= 1:
            joined[-1] = tuple(map(bytes.__add__, joined[-1], texts))
        else:
            joined.append(texts)
    return tuple(joined)

"""Which tokens could spell a text, against trying all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.grammar.vocabulary import Spelled, Vocabulary

_texts = st.lists(st.text("abé", max_size=3).map(str.encode), max_size=12)
_text = st.text("abé", min_size=1, max_size=5).map(str.encode)


@given(_texts, _text)
def test_beginnings_are_all_tokens_the_text_begins_with(texts: list[bytes], text: bytes) -> None:
    vocabulary = Vocabulary(texts)
    last = {piece: token for token, piece in enumerate(texts) if piece}
    tokens = [Spelled(token, len(piece)) for piece, token in last.items() if text.startswith(piece)]
    assert vocabulary.beginnings(text) == sorted(tokens, key=lambda spelled: spelled.length)
    assert [vocabulary.text(token) for token in range(-1, len(texts) + 1)] == [b"", *texts, b""]


@given(_texts, _text)
def test_only_one_token_is_what_a_mask_would_leave(texts: list[bytes], text: bytes) -> None:
    """The text is certain and anything may follow: a mask allows what the text begins with and what begins with it."""
    mask = [token for token, piece in enumerate(texts) if piece and (text.startswith(piece) or piece.startswith(text))]
    assert Vocabulary(texts).only_one_of(Vocabulary(texts).beginnings(text), text) == (
        len(mask) == 1 and text.startswith(texts[mask[0]])
    )


@given(_texts, _text)
def test_goes_beyond(texts: list[bytes], text: bytes) -> None:
    longer = any(piece.startswith(text) and len(piece) > len(text) for piece in texts)
    assert Vocabulary(texts).goes_beyond(text) == longer


def test_an_empty_vocabulary_spells_nothing() -> None:
    vocabulary = Vocabulary([])
    assert vocabulary.beginnings(b"a") == []
    assert not vocabulary.only_one_of(vocabulary.beginnings(b"a"), b"a")
    assert not vocabulary.goes_beyond(b"a")

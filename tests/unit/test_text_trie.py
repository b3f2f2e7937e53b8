"""The texts that are known of an output's further course, and what stays known when some of it is committed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sgl_spec.drafting.grammar.text_trie import (
    MOST_TOPS,
    KnownTexts,
    TextNode,
    TextPath,
    TextPlace,
    Top,
    advance,
    find,
    text_before,
)


def _tree() -> TextNode:
    """{"name": " then calc_ then area" or volume", or zip"."""
    top = TextNode(b"", 1.0)
    top.text, top.asked = b'{"name": "', True
    calc, zipped = TextNode(b"calc_", 0.6, top), TextNode(b'zip"', 0.4, top)
    top.children = (calc, zipped)
    calc.children = (TextNode(b'area"', 0.5, calc), TextNode(b'volume"', 0.5, calc))
    calc.asked = True
    return top


_WHOLE = (b'{"name": "calc_area"', b'{"name": "calc_volume"', b'{"name": "zip"')


@given(st.sampled_from(_WHOLE), st.data())
def test_a_text_is_found_from_any_place_on(text: bytes, data: st.DataObject) -> None:
    split = data.draw(st.integers(0, len(text)))
    place = find(TextPlace(_tree(), 0), text[:split])
    assert place is not None
    assert find(place, text[split:]) is not None
    assert find(place, text[split:] + b"?") is None


@given(st.sampled_from(_WHOLE), st.integers(0, 30))
def test_a_path_is_advanced_along_as_its_text_is_found(text: bytes, length: int) -> None:
    top = _tree()
    place, nodes = top, [top]
    while place.children:
        place = next(child for child in place.children if text.startswith(b"".join(n.text for n in (*nodes, child))))
        nodes.append(place)
    path = TextPath(text, 0.0, tuple(nodes))
    length = min(length, len(text))
    assert advance(TextPlace(top, 0), path, length) == find(TextPlace(top, 0), text[:length])


def test_the_rest_of_guessed_white_space_is_not_certain() -> None:
    top = TextNode(b"", 1.0)
    space = TextNode(b"\n  ", 0.9, top)
    space.text += b'"name"'
    assert not TextPlace(space, 1).certain
    assert TextPlace(space, 3).certain


def test_the_text_before_a_node() -> None:
    top = _tree()
    calc = top.children[0]
    assert text_before(calc.children[1], Top(b"", TextPlace(top, 0))) == b'{"name": "calc_volume"'
    assert text_before(calc.children[1], Top(b"ab", TextPlace(top, 8))) == b'ab "calc_volume"'
    assert text_before(top, Top(b"", TextPlace(top, 4))) == b'me": "'
    assert text_before(calc.children[0], Top(b"x", TextPlace(calc, 2))) == b'xlc_area"'


def test_what_was_known_below_a_committed_text_stays_known() -> None:
    texts = KnownTexts()
    spot = texts.spot(b"")
    spot.place.node.text = b'{"name"'
    spot.place.node.children = (TextNode(b":", 1.0, spot.place.node),)
    texts.commit(b'{"na')
    again = texts.spot(b"")
    assert again.place.node.text[again.place.offset :] == b'me"'
    assert texts.certain(b"") == b'me"'
    texts.commit(b'me":')
    assert texts.spot(b"").place.node.text == b":"
    assert texts.spot(b"").place.node.parent is None  # what is committed is let go
    texts.commit(b"x")
    assert texts.certain(b"") is None


def test_places_below_other_drafts_are_kept_by_their_text() -> None:
    texts = KnownTexts()
    texts.spot(b"")
    spot = texts.spot(b"Harry")
    spot.place.node.text = b'",\n'
    assert texts.spot(b'Harry",').place == TextPlace(spot.place.node, 2)
    assert texts.spot(b'Harry",').top.before == b"Harry"
    texts.commit(b"Har")
    assert texts.certain(b"ry") == b'",\n'
    texts.commit(b'ry",')
    assert texts.certain(b"") == b"\n"


@given(st.lists(st.binary(max_size=3), max_size=60))
def test_tries_are_bounded(texts: list[bytes]) -> None:
    known = KnownTexts()
    for text in texts:
        known.spot(text)
        assert len(known) <= MOST_TOPS

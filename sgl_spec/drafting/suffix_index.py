"""Where has the text ended like this before? The lookup drafter asks it at the start of every round.

An online suffix automaton over one request's tokens (Blumer et al., "The smallest automaton recognizing the
subwords of a text", 1985). Drafting from such an automaton is the idea of SAM decoding (arXiv 2411.10666).

A state stands for all the substrings that end in exactly the same places. From the state of the current
suffix the suffix links lead through every shorter suffix that occurs in more places, so all match lengths are
at hand; the transitions of a state are exactly the tokens that ever followed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import index as as_index
from typing import NamedTuple

from sgl_spec.drafting.tree import DraftError
from sgl_spec.errors import ConfigError

ROOT = 0
NO_STATE = -1
# An append refreshes newest place and count of so many suffixes, longest first. Ordinary text has 2 to 8 of
# them; a run of one repeated token has as many as it is long, and would make an append linear.
REFRESHED_SUFFIXES = 24
BYTES_PER_TOKEN = 128
MAX_BYTES_PER_TOKEN = 400


class Continuation(NamedTuple):
    """A token that followed an earlier occurrence of a context.

    Attributes:
        token: the token id.
        state: the context with the token after it, as a state to go on from.
        times: how often the token was seen there. Exact, but for contexts beyond REFRESHED_SUFFIXES, where it
            is what was known when they were last refreshed.
        end: place of the token's newest occurrence there (likewise), counted from the first token ever
            appended.
    """

    token: int
    state: int
    times: int
    end: int


class Match(NamedTuple):
    """The longest suffix of the text that occurs earlier in a certain set of places.

    Attributes:
        length: tokens in it. Shorter suffixes, down to the next match, occur in the same places only.
        state: its state.
        continuations: every token that ever followed it, each once.
    """

    length: int
    state: int
    continuations: tuple[Continuation, ...]


class Automaton(NamedTuple):
    """The automaton as columns by state, for reading in hot loops. State 0 is the empty context.

    Most states have one way on, which lies in `token` and `target` (NO_STATE: none). Only where the text
    branches does `more` hold all the other ways, as token -> target.

    Attributes:
        length: of the longest substring of the state.
        link: state of its longest suffix that occurs in more places; NO_STATE for state 0.
        end: newest known place of its last token, as an index into the tokens held.
        times: known occurrences.
    """

    length: array[int]
    link: array[int]
    end: array[int]
    times: array[int]
    token: array[int]
    target: array[int]
    more: dict[int, dict[int, int]]


class SuffixIndex:
    """Suffix automaton that takes each token in amortised constant time (about 2 microseconds on text).

    Memory is linear: at most 2 states a token, 28 bytes each, and a dictionary for each state where the text
    branches. Together that is about BYTES_PER_TOKEN bytes a token on text; the worst inputs known (noise over
    a few tokens) stay below MAX_BYTES_PER_TOKEN. When `max_tokens` are held, the older half is forgotten and
    the newer half indexed again, so each token is inserted at most twice, and matches no longer reach into
    what was forgotten. That one append takes as long as max_tokens / 2 others.

    Args:
        max_tokens: most tokens held, at least 2.

    Raises:
        ConfigError: max_tokens is below 2.
    """

    def __init__(self, max_tokens: int = 1 << 16) -> None:
        if max_tokens < 2:
            raise ConfigError(f"max_tokens is {max_tokens}; a suffix index needs at least 2")
        self.max_tokens = max_tokens
        self._forgotten = 0
        self._reset()

    def _reset(self) -> None:
        self._tokens: list[int] = []
        self._whole = ROOT  # state of the whole text
        ints = [array("i") for _ in range(5)]
        self.automaton = Automaton(ints[0], ints[1], ints[2], ints[3], array("q"), ints[4], {})
        self._new_state(0, NO_STATE, 0)
        self.automaton.link[ROOT] = NO_STATE

    def __len__(self) -> int:
        """Tokens held now."""
        return len(self._tokens)

    @property
    def num_states(self) -> int:
        """States of the automaton, state 0 included: at most 2 * len(self) + 1."""
        return len(self.automaton.length)

    @property
    def longest_match(self) -> int:
        """State of the longest suffix that also occurs earlier; state 0 when there is none."""
        return max(self.automaton.link[self._whole], ROOT)

    def matches(self) -> Iterator[Match]:
        """Every match of the current suffix, the longest first: one for each set of earlier places."""
        state = self.longest_match
        while state != ROOT:
            yield Match(self.automaton.length[state], state, tuple(self._continuations(state)))
            state = self.automaton.link[state]

    def _continuations(self, state: int) -> Iterator[Continuation]:
        columns = self.automaton
        if columns.target[state] == NO_STATE:
            return
        ways = {columns.token[state]: columns.target[state], **columns.more.get(state, {})}
        for token, target in ways.items():
            end = columns.end[target] + self._forgotten
            yield Continuation(token, target, columns.times[target], end)

    def append(self, token: int) -> None:
        """Append one token.

        Raises:
            DraftError: the token is no token id.
        """
        self.extend((token,))

    def extend(self, tokens: Sequence[int]) -> None:
        """Append `tokens` in order. Of more than can be held, only the newest are indexed.

        Raises:
            DraftError: a token is no token id (an int from 0); then none is appended.
        """
        ids = _checked(tokens)
        surplus = len(ids) - self.max_tokens
        if surplus > 0:
            self._forgotten += len(self._tokens) + surplus
            self._reset()
            ids = ids[surplus:]
        for token in ids:
            if len(self._tokens) >= self.max_tokens:
                self._forget_older_half()
            self._insert(token)

    def _forget_older_half(self) -> None:
        kept = self._tokens[-(self.max_tokens // 2) :]
        self._forgotten += len(self._tokens) - len(kept)
        self._reset()
        for token in kept:
            self._insert(token)

    def _insert(self, token: int) -> None:
        place = len(self._tokens)
        self._tokens.append(token)
        new = self._new_state(place + 1, place, 1)
        _, link, _, _, first_token, first_target, more = self.automaton
        state, found = self._whole, NO_STATE
        # Every suffix not yet followed by this token now is; the first that already was decides the link.
        while state >= 0:
            if first_target[state] < 0:
                first_token[state] = token
                first_target[state] = new
            elif first_token[state] == token:
                found = first_target[state]
                break
            else:
                ways = more.get(state)
                if ways is None:
                    more[state] = {token: new}
                elif token in ways:
                    found = ways[token]
                    break
                else:
                    ways[token] = new
            state = link[state]
        link[new] = ROOT if state < 0 else self._split(state, token, found)
        self._whole = new
        self._refresh_suffixes(place)

    def _new_state(self, length: int, end: int, times: int) -> int:
        columns = self.automaton
        columns.length.append(length)
        columns.link.append(ROOT)
        columns.end.append(end)
        columns.times.append(times)
        columns.token.append(-1)
        columns.target.append(NO_STATE)
        return len(columns.length) - 1

    def _split(self, state: int, token: int, found: int) -> int:
        """The state of just `state`'s longest substring and `token`: `found`, or a part split off from it."""
        columns = self.automaton
        length = columns.length[state] + 1
        if length == columns.length[found]:
            return found
        part = self._new_state(length, columns.end[found], columns.times[found])
        columns.token[part] = columns.token[found]
        columns.target[part] = columns.target[found]
        if found in columns.more:
            columns.more[part] = dict(columns.more[found])
        columns.link[part] = columns.link[found]
        columns.link[found] = part
        self._redirect(state, token, found, part)
        return part

    def _redirect(self, state: int, token: int, old: int, new: int) -> None:
        """Let `state` and its suffixes that go to `old` on `token` go to `new`."""
        _, link, _, _, first_token, first_target, more = self.automaton
        while state >= 0:
            if first_token[state] == token:
                if first_target[state] != old:
                    return
                first_target[state] = new
            else:
                ways = more.get(state)
                if ways is None or ways.get(token) != old:
                    return
                ways[token] = new
            state = link[state]

    def _refresh_suffixes(self, place: int) -> None:
        _, link, end, times, *_ = self.automaton
        state = link[self._whole]
        for _ in range(REFRESHED_SUFFIXES):
            if state <= ROOT:
                return
            end[state] = place
            times[state] += 1
            state = link[state]


def _checked(tokens: Sequence[int]) -> list[int]:
    try:
        ids = list(map(as_index, tokens))
    except TypeError as error:
        raise DraftError(f"tokens {tokens!r:.80} are not all token ids, which are ints from 0") from error
    if ids and min(ids) < 0:
        raise DraftError(f"tokens hold {min(ids)}; token ids are ints from 0")
    return ids

"""The loops of the suffix index, compiled: appending committed tokens at the end of a round, walking a cursor, and
the search for drafts at its start. Plain Python took ten times as long, most of a round's time on the host.

suffix_index, suffix_cursor and suffix_search say what these loops do and own the arrays; nothing else calls them.
The slow twins are the brute-force rules in tests/unit/test_suffix_index.py, test_suffix_cursor.py and
test_lookup_twin.py.

Everything compiled is in this one file on purpose: numba's cache on disk notices when a function's own file has
changed, but not when one it calls from another file has. Numbers that may be tuned arrive as arguments. What is
read from the int32 arrays is widened at once, and so are constants that variables start with: a function is compiled
anew for each mix of types that it is called with.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sgl_spec.compiled import kept_njit

# A line a name would be a page.
# isort: off
from sgl_spec.drafting.lookup.suffix_layout import EDGES, END, FROM, LENGTH, LINK, MORE, NEXT, NOTHING, ON, ROOT, STATES
from sgl_spec.drafting.lookup.suffix_layout import TARGET, TIMES, TO, TOKEN, TOKENS, WAYS, WHOLE, Automaton
# isort: on

# An append refreshes newest place and count of so many suffixes, longest first. Ordinary text has 2 to 8 of
# them; a run of one repeated token has as many as it is long, and would make an append linear.
REFRESHED_SUFFIXES = 24
# The newest of several continuations counts as if it had been seen once more.
NEWEST_BONUS = 1
# Odd numbers without pattern, for hashing.
_MIX_STATE = 0x1E3779B97F4A7C15
_MIX_TOKEN = 0x42B2AE3D27D4EB4F

_entry = kept_njit(error_model="numpy", no_cfunc_wrapper=True)
_inner = njit(error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
_int = np.int64


@_inner
def _slot(table, state, token):  # type: ignore[no-untyped-def]
    mixed = state * _MIX_STATE + token * _MIX_TOKEN
    return (mixed >> 31) & (len(table) - 1)


@_inner
def _edge(automaton, state, token):  # type: ignore[no-untyped-def]
    """The row of `edges` for a state and token, -1 where there is none."""
    _, edges, table = automaton
    slot = _slot(table, state, token)
    while table[slot] >= 0 and (edges[table[slot], FROM] != state or edges[table[slot], ON] != token):
        slot = (slot + 1) & (len(table) - 1)
    return _int(table[slot])


@_inner
def _following(automaton, state, token):  # type: ignore[no-untyped-def]
    """The state after `token` in the context `state`, -1 where it never followed."""
    states, edges, _ = automaton
    if states[state, TARGET] < 0 or states[state, TOKEN] == token:
        return _int(states[state, TARGET])
    edge = _edge(automaton, state, token) if states[state, MORE] >= 0 else NOTHING
    return _int(edges[edge, TO]) if edge >= 0 else NOTHING


@_entry
def enter_edges(edges, table, count):  # type: ignore[no-untyped-def]
    """Fill an empty hash table with the first `count` rows of `edges`."""
    for edge in range(count):
        slot = _slot(table, _int(edges[edge, FROM]), _int(edges[edge, ON]))
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = edge


@_inner
def _add_way(automaton, counts, state, token, target):  # type: ignore[no-untyped-def]
    states, edges, table = automaton
    states[state, WAYS] += 1
    if states[state, TARGET] < 0:
        states[state, TOKEN] = token
        states[state, TARGET] = target
        return
    edge = counts[EDGES]
    counts[EDGES] += 1
    edges[edge, FROM], edges[edge, ON], edges[edge, TO] = state, token, target
    edges[edge, NEXT] = states[state, MORE]
    states[state, MORE] = edge
    slot = _slot(table, state, token)
    while table[slot] >= 0:
        slot = (slot + 1) & (len(table) - 1)
    table[slot] = edge


@_inner
def _new_state(automaton, counts, length, end, times):  # type: ignore[no-untyped-def]
    new = counts[STATES]
    counts[STATES] += 1
    states = automaton.states
    states[new, LENGTH], states[new, LINK], states[new, END], states[new, TIMES] = length, ROOT, end, times
    states[new, TOKEN], states[new, TARGET], states[new, MORE], states[new, WAYS] = NOTHING, NOTHING, NOTHING, 0
    return new


@_inner
def _edges_needed(automaton, state, token):  # type: ignore[no-untyped-def]
    """At least as many rows of `edges` as appending `token` to the text of `state` takes."""
    states = automaton.states
    needed = _int(0)
    while state >= 0:
        found = _following(automaton, state, token)
        if found >= 0:
            return needed + states[found, WAYS]
        needed += 1
        state = _int(states[state, LINK])
    return needed


@_inner
def _split(automaton, counts, state, token, found):  # type: ignore[no-untyped-def]
    """The state of just `state`'s longest substring and `token`: `found`, or a part split off from it."""
    states, edges, _ = automaton
    length = _int(states[state, LENGTH]) + 1
    if length == states[found, LENGTH]:
        return found
    part = _new_state(automaton, counts, length, _int(states[found, END]), _int(states[found, TIMES]))
    if states[found, TARGET] >= 0:
        _add_way(automaton, counts, part, _int(states[found, TOKEN]), _int(states[found, TARGET]))
    edge = _int(states[found, MORE])
    while edge >= 0:
        _add_way(automaton, counts, part, _int(edges[edge, ON]), _int(edges[edge, TO]))
        edge = _int(edges[edge, NEXT])
    states[part, LINK] = states[found, LINK]
    states[found, LINK] = part
    while state >= 0 and _following(automaton, state, token) == found:
        if states[state, TOKEN] == token:
            states[state, TARGET] = part
        else:
            edges[_edge(automaton, state, token), TO] = part
        state = _int(states[state, LINK])
    return part


@_inner
def _append_one(automaton, counts, token):  # type: ignore[no-untyped-def]
    states = automaton.states
    place, state = counts[TOKENS], counts[WHOLE]
    counts[TOKENS] += 1
    new = _new_state(automaton, counts, place + 1, place, _int(1))
    # Every suffix not yet followed by this token now is; the first that already was decides the link.
    found = _int(NOTHING)
    while state >= 0:
        found = _following(automaton, state, token)
        if found >= 0:
            break
        _add_way(automaton, counts, state, token, new)
        state = _int(states[state, LINK])
    if found >= 0:
        states[new, LINK] = _split(automaton, counts, state, token, found)
    counts[WHOLE] = new
    state = _int(states[new, LINK])
    for _ in range(REFRESHED_SUFFIXES):
        if state <= ROOT:
            return
        states[state, END] = place
        states[state, TIMES] += 1
        state = _int(states[state, LINK])


@_entry
def append(states, edges, table, counts, held, new):  # type: ignore[no-untyped-def]
    """Append the tokens `new` in order, until an array is full; returns how many were appended.

    `counts` is int64[4], rows in use: tokens held, states, edges; and the state of the whole text. `held` is
    int32[capacity] and keeps the tokens.
    """
    automaton = Automaton(states, edges, table)
    for done, token in enumerate(new):
        if counts[TOKENS] == len(held) or counts[STATES] + 2 > len(states):
            return done
        if counts[EDGES] + _edges_needed(automaton, counts[WHOLE], token) > len(edges):
            return done
        held[counts[TOKENS]] = token
        _append_one(automaton, counts, token)
    return len(new)


@_entry
def all_within(tokens, least, most):  # type: ignore[no-untyped-def]
    """Whether all tokens are from `least` to `most`."""
    for token in tokens:  # noqa: SIM110 (a generator within all() does not compile)
        if token < least or token > most:
            return False
    return True


@_entry
def walk(states, edges, table, tokens, state, length):  # type: ignore[no-untyped-def]
    """From the match of `length` tokens in `state`, the match after each of `tokens` in turn: state and length."""
    automaton = Automaton(states, edges, table)
    state, length = _int(state), _int(length)
    # States that were split since: a shorter match belongs to the part that was split off.
    while state > ROOT and states[states[state, LINK], LENGTH] >= length:
        state = _int(states[state, LINK])
    for token in tokens:
        found = _following(automaton, state, token)
        while found < 0 and state > ROOT:
            state = _int(states[state, LINK])
            length = _int(states[state, LENGTH])
            found = _following(automaton, state, token)
        state = _int(max(found, ROOT))
        length = length + 1 if found >= 0 else 0
    return state, length


@_inner
def _offer(nodes, weights, size, a, q, parent, token, target, length):  # type: ignore[no-untyped-def]
    """Enter a node among the `size` best found so far, in descending a; returns how many there are then."""
    if size == len(nodes):
        if a <= weights[size - 1, 0]:
            return size
        size -= 1
    place = size
    while place > 0 and weights[place - 1, 0] < a:
        for column in range(4):
            nodes[place, column] = nodes[place - 1, column]
        weights[place, 0], weights[place, 1] = weights[place - 1, 0], weights[place - 1, 1]
        place -= 1
    nodes[place, 0], nodes[place, 1], nodes[place, 2], nodes[place, 3] = parent, token, target, length
    weights[place, 0], weights[place, 1] = a, q
    return size + 1


@_inner
def _offer_several(automaton, nodes, weights, size, node, known, context, a, share, min_q):  # type: ignore[no-untyped-def]
    """Offer the tokens that followed a context and not the `known`, longer one, together worth `share`."""
    states, edges, _ = automaton
    state, length = context
    total, newest = _int(NEWEST_BONUS), _int(NOTHING)
    for offering in (False, True):
        each = share / total
        token, target, edge = _int(states[state, TOKEN]), _int(states[state, TARGET]), _int(states[state, MORE])
        while target >= 0:
            if known == ROOT or _following(automaton, known, token) < 0:
                weight, end = _int(states[target, TIMES]), _int(states[target, END])
                if not offering:
                    total += weight
                    newest = end if end > newest else newest
                elif token >= 0:
                    q = each * (weight + (NEWEST_BONUS if end == newest else 0))
                    if q >= min_q:
                        size = _offer(nodes, weights, size, a * q, q, node, token, target, length + 1)
            if edge < 0:
                break
            token, target, edge = _int(edges[edge, ON]), _int(edges[edge, TO]), _int(edges[edge, NEXT])
    return size


@_inner
def _expand(automaton, trust, nodes, weights, size, node, state, length, a, min_a):  # type: ignore[no-untyped-def]
    """Offer what may follow a node, whose context is `length` tokens in `state`; returns as _offer."""
    states = automaton.states
    if size == len(nodes):
        min_a = max(min_a, weights[size - 1, 0])
    min_q = min_a / a
    left = 1.0  # P that no token offered so far is the one
    known = _int(ROOT)  # the last, longer context: all that followed it also follows this one
    while state > ROOT and left >= min_q:
        ways, target, token = _int(states[state, WAYS]), _int(states[state, TARGET]), _int(states[state, TOKEN])
        fresh = ways - (_int(states[known, WAYS]) if known > ROOT else 0)
        row = min(length, len(trust) - 1)
        if fresh > 0 and ways == 1:
            q = left * trust[row, 0 if states[target, TIMES] == 1 else 1]
            left -= q
            if q >= min_q and token >= 0:
                size = _offer(nodes, weights, size, a * q, q, node, token, target, length + 1)
        elif fresh > 0:
            q = left * trust[row, 2]
            left -= q
            # No way on is likelier than if each of the others had been seen just once. This spares the look at
            # them all where many tokens followed, as after a line's end.
            most = _int(states[state, TIMES]) + NEWEST_BONUS
            if q * (most - fresh + 1) >= min_q * most:
                size = _offer_several(automaton, nodes, weights, size, node, known, (state, length), a, q, min_q)
        known, state = state, _int(states[state, LINK])
        length = _int(states[state, LENGTH])
    return size


@_inner
def _chains(nodes, weights, size):  # type: ignore[no-untyped-def]
    """Nodes as one chain a leaf: the tokens of all chains, where each stops, all q."""
    depth = np.empty(size, np.int64)
    leaf = np.ones(size, np.bool_)
    for node in range(size):
        parent = nodes[node, 0]
        depth[node] = 1 if parent < 0 else depth[parent] + 1
        if parent >= 0:
            leaf[parent] = False
    total, chains = 0, 0
    for node in range(size):
        if leaf[node]:
            total += depth[node]
            chains += 1
    numbers, q = np.empty(total + chains, np.int64), np.empty(total)
    stop, chain = 0, 0
    for end in range(size):
        if leaf[end]:
            stop += depth[end]
            numbers[total + chain] = stop
            chain += 1
            node = end
            for place in range(stop - 1, stop - 1 - depth[end], -1):
                numbers[place], q[place] = nodes[node, 1], weights[node, 1]
                node = nodes[node, 0]
    return numbers, q


@_entry
def search(states, edges, table, trust, state, length, max_nodes, min_a):  # type: ignore[no-untyped-def]
    """The likeliest nodes below the context of `length` tokens in `state`.

    `trust` is float64[lengths, 3]: once, agreed, split by length of the context, the last row for all longer ones.
    Returns chains one after the other, a chain a leaf: int64[n + chains], their tokens and then where each chain
    stops; float64[n], their q.
    """
    automaton = Automaton(states, edges, table)
    # The best nodes found so far in descending a: those before `node` are drafted, for what comes later has a
    # smaller a, and the others may still be driven out. Columns: parent, token, state, length; a, q.
    nodes, weights = np.empty((max_nodes, 4), np.int64), np.empty((max_nodes, 2))
    node, size, a = _int(NOTHING), _int(0), 1.0
    while node < size:
        size = _expand(automaton, trust, nodes, weights, size, node, state, length, a, min_a)
        node += 1
        if node < size:
            state, length, a = nodes[node, 2], nodes[node, 3], weights[node, 0]
    return _chains(nodes, weights, size)

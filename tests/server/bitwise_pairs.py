"""Run by test_bitwise.py, once per data type: `python bitwise_pairs.py MODEL DTYPE PAIRS`; prints one JSON line.

For each random pair of a prefix and a tree, every node's path is decoded alone, token by token, over the prefix;
then the tree is verified alone, and once more together with others. All three must give a node the same bits.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import torch
from bitwise_harness import Model, Outputs

from sgl_spec.drafting.flat_tree import FlatTree, flatten
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.server import verify_input

LONGEST_PREFIX = 700
MOST_NODES = 16
TEXTS = 3
TOGETHER = 4
CHUNKS = (1, 7, 64, 200, 428)  # sums to LONGEST_PREFIX
_SLOTS = TEXTS * LONGEST_PREFIX + 2 * TOGETHER * MOST_NODES


class Pair(NamedTuple):
    """prefix: slots of the cached prefix; width: rows of the verify forward, of which the tree fills the first."""

    prefix: list[int]
    tree: DraftTree
    width: int


@dataclass
class Report:
    """Counts of what was compared, and each difference found: (what, pair, node, differing numbers)."""

    pairs: int = 0
    nodes: int = 0
    compared_alone: int = 0
    compared_together: int = 0
    longest_prefix: int = 0
    deepest: int = 0
    branching: int = 0
    prefill_rows: int = 0
    control_changed: int = 0
    seconds: float = 0.0
    differences: list[tuple[str, int, int, int]] = field(default_factory=list)

    def compare(self, what: str, pair: int, node: int, wanted: Outputs, got: Outputs) -> None:
        for name, a, b in (("hidden", wanted.hidden, got.hidden), ("logits", wanted.logits, got.logits)):
            if not torch.equal(a, b):
                self.differences.append((f"{what}: {name}", pair, node, int((a != b).sum())))


class Pool:
    """Hands out slots in random order, so that no sequence lies in one piece."""

    def __init__(self, rng: random.Random) -> None:
        self._free = list(range(1, _SLOTS + 1))
        rng.shuffle(self._free)

    def take(self, count: int) -> list[int]:
        taken, self._free = self._free[:count], self._free[count:]
        return taken


def random_tree(rng: random.Random, vocabulary: int) -> DraftTree:
    """1 to 16 nodes; chains, bushes and what lies between."""
    nodes = rng.randint(1, MOST_NODES if rng.random() < 0.6 else 5)
    tree, straightness = DraftTree(rng.randrange(vocabulary)), rng.random()
    while len(tree) < nodes:
        under = len(tree) - 1 if rng.random() < straightness else rng.randrange(len(tree))
        tree.graft(Chain((rng.randrange(vocabulary),), (rng.uniform(0.1, 1.0),), "random"), under)
    return tree


def random_pair(rng: random.Random, texts: Sequence[list[int]], vocabulary: int) -> Pair:
    tree = random_tree(rng, vocabulary)
    return Pair(rng.choice(texts)[: rng.randint(1, LONGEST_PREFIX)], tree, rng.randint(len(tree), MOST_NODES))


def row(outputs: Outputs, index: int) -> Outputs:
    return Outputs(outputs.hidden[index], outputs.logits[index])


class Comparison:
    def __init__(self, model: Model, seed: int) -> None:
        self.model, self.rng, self.report = model, random.Random(seed), Report()
        pool = Pool(self.rng)
        self.texts = [self._prefilled(pool.take(LONGEST_PREFIX)) for _ in range(TEXTS)]
        self.alone_slots = pool.take(MOST_NODES)
        self.tree_slots = [pool.take(MOST_NODES) for _ in range(TOGETHER)]
        self._check_prefill(pool.take(40))
        self._check_that_a_difference_is_seen()

    def _tokens(self, count: int) -> list[int]:
        return [self.rng.randrange(self.model.vocabulary) for _ in range(count)]

    def _prefilled(self, slots: list[int]) -> list[int]:
        done = 0
        for count in CHUNKS:
            self.model.prefill(self._tokens(count), slots[: done + count])
            done += count
        return slots

    def _check_prefill(self, spare: list[int]) -> None:
        """A prompt's rows have the bits of a decode too: what speculation commits, a later prefill may compute."""
        prefix, tokens = self.texts[0][:300], self._tokens(len(spare))
        together = self.model.prefill(tokens, [*prefix, *spare])
        alone = [self.model.decode([t], [[*prefix, *spare[: i + 1]]]) for i, t in enumerate(tokens)]
        for i, decoded in enumerate(alone):
            if not torch.equal(decoded.hidden[0], together.hidden[i]):
                self.report.differences.append(("prefill: hidden", -1, i, -1))
        if not torch.equal(alone[-1].logits, together.logits):
            self.report.differences.append(("prefill: logits", -1, len(tokens) - 1, -1))
        self.report.prefill_rows = len(tokens)

    def _check_that_a_difference_is_seen(self) -> None:
        """The control: one token of the prefix exchanged changes every node, and the comparison says so."""
        tree = DraftTree(1)
        tree.graft(Chain((2, 3, 4), (0.5, 0.5, 0.5), "control"))
        same = Pair(self.texts[0][:50], tree, MOST_NODES)
        changed = same._replace(prefix=[*same.prefix[:20], self.texts[1][20], *same.prefix[21:]])
        wanted, got = self.alone(same), self.verified([changed], MOST_NODES)[0]
        self.report.control_changed = sum(not torch.equal(a.hidden, b.hidden) for a, b in zip(wanted, got, strict=True))

    def alone(self, pair: Pair) -> list[Outputs]:
        """Each node decoded over the prefix and its own path. A path's decodes are shared by the nodes below it."""
        tree, outputs, path = pair.tree, [], {-1: pair.prefix}
        for node, (token, parent) in enumerate(zip(tree.tokens, tree.parents, strict=True)):
            path[node] = [*path[parent], self.alone_slots[node]]
            decoded = self.model.decode([token], [path[node]])
            outputs.append(row(decoded, 0))
        return outputs

    def verified(self, pairs: Sequence[Pair], width: int) -> list[list[Outputs]]:
        """Every real node of every tree, from one verify forward."""
        trees: list[FlatTree] = [flatten(pair.tree, width) for pair in pairs]
        lengths = torch.tensor([len(pair.prefix) for pair in pairs])
        info = verify_input.build(trees, lengths, lengths, full_mask=False)
        own = [slots[:width] for slots in self.tree_slots[: len(pairs)]]
        out = self.model.verify(info, [pair.prefix for pair in pairs], own)
        return [[row(out, i * width + node) for node in range(tree.size)] for i, tree in enumerate(trees)]

    def run(self, pairs: int) -> Report:
        started = time.monotonic()
        for first in range(0, pairs, TOGETHER):
            self._group(first, min(TOGETHER, pairs - first))
        self.report.seconds = round(time.monotonic() - started, 1)
        return self.report

    def _group(self, first: int, count: int) -> None:
        group = [random_pair(self.rng, self.texts, self.model.vocabulary) for _ in range(count)]
        wanted = [self.alone(pair) for pair in group]
        for i, pair in enumerate(group):
            self._count(pair)
            got = self.verified([pair], pair.width)[0]
            self.report.compared_alone += self._compare("tree alone", first + i, wanted[i], got)
        for i, got in enumerate(self.verified(group, max(pair.width for pair in group))):
            self.report.compared_together += self._compare("trees together", first + i, wanted[i], got)

    def _count(self, pair: Pair) -> None:
        self.report.pairs += 1
        self.report.nodes += len(pair.tree)
        self.report.longest_prefix = max(self.report.longest_prefix, len(pair.prefix))
        self.report.deepest = max(self.report.deepest, *pair.tree.depths)
        self.report.branching += len(pair.tree) > 1 + max(pair.tree.depths)

    def _compare(self, what: str, pair: int, wanted: Sequence[Outputs], got: Sequence[Outputs]) -> int:
        for node, (alone, together) in enumerate(zip(wanted, got, strict=True)):
            self.report.compare(what, pair, node, alone, together)
        return len(wanted)


if __name__ == "__main__":
    path, dtype, wanted_pairs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    target = Model(path, dtype, slots=_SLOTS, max_width=MOST_NODES)
    print(json.dumps(asdict(Comparison(target, seed=1).run(wanted_pairs))))

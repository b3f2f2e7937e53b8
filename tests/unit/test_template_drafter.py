"""The template drafter: which sources a request has, what is kept between requests, and whose outputs are used."""

from __future__ import annotations

import json
import random

import pytest
from drafted import check
from piece_codec import PieceCodec
from test_slot_template import record

from sgl_spec.drafting.budget import DraftBudget
from sgl_spec.drafting.drafter import DraftRequest
from sgl_spec.drafting.hint import Hint
from sgl_spec.drafting.planner import DraftPlanner
from sgl_spec.drafting.template import template_drafter
from sgl_spec.drafting.template.template_drafter import MAX_KEPT, TemplateDrafter
from sgl_spec.drafting.tree import DraftError


class Slots:
    """Past outputs by owner, as the memory gives them: the newest first."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[tuple[int, ...]]] = {}
        self.asked = 0

    def __call__(self, request: DraftRequest) -> list[tuple[int, ...]]:
        self.asked += 1
        return self.outputs.get(request.owner, [])[::-1][:8]


class World:
    """A drafter with a codec and past outputs, and how often something was learned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.codec = PieceCodec()
        self.slots = Slots()
        self.learned = 0
        self.drafter = TemplateDrafter(self.codec, self.slots)
        learn = template_drafter.learn

        def counted(outputs):
            self.learned += 1
            return learn(outputs)

        monkeypatch.setattr(template_drafter, "learn", counted)

    def start(self, rid: str = "r", prompt: str = "Extract:\n", owner: str = "", **hint: object) -> None:
        self.drafter.start(DraftRequest(rid, self.codec.encode(prompt), "p", "s", owner=owner, hint=Hint(**hint)))

    def drafted(self, rid: str = "r", most: int = 15) -> dict[str, set[str]]:
        """Texts by origin."""
        chains = self.drafter.propose(rid, most)
        check([chain for chain in chains if chain.origin == "memory.template"])
        found: dict[str, set[str]] = {}
        for chain in chains:
            found.setdefault(chain.origin, set()).add(self.codec.text(chain.tokens))
        return found

    def remember(self, *texts: str, owner: str = "") -> None:
        self.slots.outputs.setdefault(owner, []).extend(tuple(self.codec.encode(text)) for text in texts)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def records(times: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [json.dumps(record(rng)) for _ in range(times)]


def test_every_source_drafts_under_its_origin(world):
    world.remember(*records(4))
    world.start(shape=("Name: ", None), examples=("<name>Ada</name>", "<name>Bo</name>"))
    drafted = world.drafted()
    assert set(drafted) == {"template.shape", "template.example", "memory.template"}
    assert any(text.startswith("Name:") for text in drafted["template.shape"])
    assert any(text.startswith("<name>") for text in drafted["template.example"])
    assert any(text.startswith('{"name": "') for text in drafted["memory.template"])


def test_a_request_of_which_nothing_is_known_gets_nothing(world):
    world.start()
    assert world.drafter.propose("r", 15) == []
    world.drafter.observe("r", [1, 2])
    assert world.drafter.propose("r", 15) == []


def test_all_sources_follow_the_output(world):
    world.remember(*records(4))
    world.start(shape=('{"name": "', None, '", "city": "', None), examples=tuple(records(3, seed=2)))
    world.drafter.observe("r", world.codec.encode('{"name": "Zoe'))
    world.drafter.observe("r", world.codec.encode(' Quitoson",'))
    after = world.drafter.propose("r", 15)
    assert {chain.origin for chain in after} == {"template.shape", "template.example", "memory.template"}
    best = {chain.origin: world.codec.text(chain.tokens) for chain in reversed(after)}
    assert all(text.startswith(' "city": "') for text in best.values())


@pytest.mark.parametrize(("memory", "asked"), [("read-write", 1), ("read", 1), ("write", 0), ("off", 0)])
def test_a_request_that_does_not_read_the_memory_is_not_drafted_from_it(world, memory, asked):
    world.remember(*records(4))
    world.start(memory=memory)
    assert world.slots.asked == asked
    assert bool(world.drafted()) == bool(asked)


def test_origins_that_the_client_rules_out_are_not_even_made(world):
    world.remember(*records(4))
    world.start(origins=frozenset({"template.shape"}), shape=("Name: ", None), examples=("Name: Ada", "Name: Bo"))
    assert set(world.drafted()) == {"template.shape"}
    assert world.slots.asked == world.learned == 0


def test_one_output_is_followed_as_a_prediction_of_little_trust(world):
    (text,) = records(1)
    world.remember(text)
    world.start()
    assert world.learned == 0
    (chain,) = world.drafter.propose("r", 15)
    assert text.startswith(world.codec.text(chain.tokens))
    assert chain.origin == "memory.template"
    assert max(chain.q) < 0.8


def test_an_example_begins_as_the_prompt_makes_it_begin(world):
    prompt, example = "The answer is", "\"' yes"
    world.start(prompt=prompt + " (", examples=(example,))
    together = world.codec.encode(prompt + " (" + example)
    drafted = world.drafter.propose("r", 15)[0].tokens
    assert together[: len(world.codec.encode(prompt + " ("))] != world.codec.encode(prompt + " (")
    assert world.codec.text(drafted) == example, "the prompt stays as it is"


def test_a_template_is_kept_until_a_good_part_of_the_outputs_is_new(world):
    texts = records(12)
    world.remember(*texts[:8])
    counts = []
    for number in range(4):
        world.start(f"r{number}")
        world.start(f"again{number}")
        counts.append(world.learned)
        world.remember(texts[8 + number])
    assert counts == [1, 1, 1, 2]


def test_examples_and_shapes_are_read_once(world):
    for number in range(5):
        world.start(str(number), examples=tuple(records(3)), shape=("Name: ", None))
    assert world.learned == 1
    encoded = world.codec.encoded_chars
    world.start("x", examples=tuple(records(3)), shape=("Name: ", None))
    assert world.codec.encoded_chars == encoded + len("Extract:\n")


def test_what_is_kept_is_bounded(world):
    for number in range(3 * MAX_KEPT):
        world.start(str(number), examples=(f"a b c {number}", f"a b c {-number}"), shape=("Name: ", f"{number}", None))
        world.drafter.stop(str(number))
    world.start("newest", examples=(f"a b c {3 * MAX_KEPT - 1}", f"a b c {1 - 3 * MAX_KEPT}"))
    assert world.learned == 3 * MAX_KEPT, "the newest was still there"
    world.start("oldest", examples=("a b c 0", "a b c 0"))
    assert world.learned == 3 * MAX_KEPT + 1


def test_one_owners_outputs_are_never_drafted_for_another(world):
    world.remember(*(f"secret token: {n} end" for n in (11, 22, 33, 44)), owner="a")
    world.remember(*(f"public note: {n} end" for n in (11, 22, 33, 44)), owner="b")
    for owner, own in (("a", "secret"), ("b", "public"), ("a", "secret")):
        world.start(owner=owner)
        texts = world.drafted()["memory.template"]
        assert all(text.startswith(own) for text in texts)
    world.start(owner="c")
    assert world.drafted() == {}


def test_past_outputs_that_agree_with_the_request_pay_in_a_planned_round(world):
    world.remember(*records(8))
    planner = DraftPlanner([world.drafter], DraftBudget(15), vocab_size=10_000)
    planner.start(DraftRequest("r", world.codec.encode("Extract:\n"), "p", "s"))
    plan = planner.plan("r", 10, 100)
    assert plan.abstain_reason is None
    assert plan.tree.expected_tokens > 2.0
    assert planner.failures == ()


def test_unknown_requests_are_named(world):
    world.start()
    world.drafter.stop("r")
    world.drafter.stop("r")
    for call in (lambda: world.drafter.propose("r", 1), lambda: world.drafter.observe("r", [1])):
        with pytest.raises(DraftError, match="rid 'r'"):
            call()


@pytest.mark.parametrize("min_a", [-1.0, 1.5, float("nan")])
def test_a_wrong_floor_is_refused(min_a):
    with pytest.raises(DraftError, match="min_a"):
        TemplateDrafter(PieceCodec(), lambda request: (), min_a)

"""Follows one output along a template and drafts what comes: the rest of a run, the end of a hole, a value seen
before. The template drafter keeps one for each request and template.

What an output contradicts costs the template trust, so a wrong one soon proposes nothing; and wherever three tokens
in a row are those of a run, the output is followed again from there.
"""

from __future__ import annotations

from collections.abc import Iterable

from sgl_spec.drafting.template.alignment import GRAM
from sgl_spec.drafting.template.slot_template import START_HOLE, Place, Run
from sgl_spec.drafting.template.template_belief import AT_START, Belief, Weighted, step
from sgl_spec.drafting.template.template_search import TRUST, TemplateSearch
from sgl_spec.drafting.tree import Chain

# P(an output really is in a run again whose GRAM tokens it just had).
RESUMED = 0.8


class TemplateCursor:
    """A position of an output in a template, at the output's beginning at first.

    Args:
        search: of the template; shared by all its cursors.
    """

    __slots__ = ("_before", "_belief", "_contradictions", "_hole", "_search", "_since")

    def __init__(self, search: TemplateSearch) -> None:
        self._search = search
        self._belief: Belief = AT_START
        self._contradictions = 0
        self._hole = START_HOLE  # the hole the output is in or was in last
        self._since = 0  # tokens since that hole began
        self._before: tuple[int, ...] = ()  # the last tokens, one less than a gram

    def propose(self, max_tokens: int) -> list[Chain]:
        """Chains from the last token on, together at most `max_tokens` nodes."""
        return self._search.chains(self._belief, self._contradictions, max_tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Advance over `tokens` in order."""
        for token in tokens:
            self.advance(token)

    def advance(self, token: int) -> None:
        """The next token of the output."""
        self._since += 1
        place = self._belief[0].place
        if place.part >= 0 and len(self._belief) == 1:
            self._advance_in_run(self._search.template.runs[place.part], place, token)
        else:
            self._settle(step(self._search.template, self._belief, token))
        if self._belief[0].place.part < 0 and self._since >= GRAM:
            self._resume((*self._before, token))
        self._before = (*self._before[2 - GRAM :], token)

    def _advance_in_run(self, run: Run, place: Place, token: int) -> None:
        """The output is certainly in a run."""
        if run.tokens[place.at] != token:
            self._contradictions = min(self._contradictions + 1, len(TRUST) - 1)
            # Either the run did not begin yet, or it was written otherwise and the hole after it has begun.
            before, after = Place(~self._hole, self._since), Place(~run.hole, 1)
            self._settle((Weighted(before, 0.5), Weighted(after, 0.5)))
            return
        if place.at + 1 == len(run.tokens) and place.at + 1 >= GRAM and self._contradictions:
            self._contradictions -= 1
        self._settle((Weighted(self._search.template.after(place.part, place.at + 1), 1.0),))

    def _settle(self, belief: Belief) -> None:
        if not belief:  # several runs were possible, and it is none of them
            belief = (Weighted(Place(~self._hole, self._since), 1.0),)
        self._belief = belief
        place = belief[0].place
        if place.part < 0:
            self._hole, self._since = ~place.part, place.at

    def _resume(self, gram: tuple[int, ...]) -> None:
        """Look for the last tokens in the runs: in those still to come first, the nearest of them."""
        places = self._search.template.resumes.get(gram)
        if places is None or any(entry.place.part >= 0 for entry in self._belief):
            return
        place = min(places, key=self._distance)
        self._belief = (Weighted(place, RESUMED), Weighted(self._belief[0].place, 1.0 - RESUMED))

    def _distance(self, place: Place) -> tuple[bool, int]:
        """Sorts places by how far they are on from the hole, those before it last. Run i comes after hole i."""
        run = place.part if place.part >= 0 else ~place.part - 1
        return run < self._hole, abs(run - self._hole)

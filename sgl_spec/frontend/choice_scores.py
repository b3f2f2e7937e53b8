"""What the choices of a `select` score: exactly the tokens that each adds to the prompt, every one counted.

Stands beside the rounds: choices are scored in one prefill and nothing is drafted. SGLang's own code leaves out tokens
of probability 1 (their log-probability, 0.0, passes for a missing one), counts the last token of the prompt as if it
were the choice's, and gives its greedy and its unconditional method values that they fail on. The decision itself is
left to SGLang's methods. No SGLang import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sgl_spec.errors import ConfigError, ServerError

# The last tokens of the prompt may merge with a choice's first letters; a merge over more than these is not known.
MOST_HEALED = 3

Entry = Sequence[Any]  # SGLang's (log-probability, token id, text)


class ChoiceScore(NamedTuple):
    """What one choice adds to the prompt.

    Attributes:
        entries: its tokens, as the server reported them; the first may hold the end of the prompt too.
        mean: of their log-probabilities, in nats per token.
    """

    entries: list[Entry]
    mean: float


def check_choices(choices: Any, temperature: float) -> None:
    """Raises ConfigError for choices that cannot be told apart by a score."""
    if temperature > 1e-5:
        raise ConfigError(f"temperature: select scores its choices, it takes only 0, not {temperature!r}")
    if isinstance(choices, str) or not choices:
        raise ConfigError(f"choices: {choices!r:.80}; a select needs a list of at least one text")
    wrong = next((choice for choice in choices if not isinstance(choice, str) or not choice), None)
    if wrong is not None:
        raise ConfigError(f"choices: {wrong!r:.80} is or has no text to score; give texts of at least one character")


def scoring_start(prompt: Sequence[int]) -> int:
    """The token from which the server is to report log-probabilities, of the prompt's tokens and a choice's."""
    return max(len(prompt) - 1 - MOST_HEALED, 0)


def score_choice(choice: str, prompt: Sequence[int], entries: Sequence[Entry]) -> ChoiceScore:
    """The score of a choice.

    Args:
        prompt: the token ids of the prompt alone.
        entries: of prompt and choice together, from `scoring_start` on. The first has no log-probability.

    Raises:
        ServerError: the answer holds no token of the choice, or one without its log-probability.
    """
    same = scoring_start(prompt)
    while same < len(prompt) and same - scoring_start(prompt) < len(entries):
        if entries[same - scoring_start(prompt)][1] != prompt[same]:
            break
        same += 1
    own = [entry for number, entry in enumerate(entries, scoring_start(prompt)) if number >= same and number > 0]
    values = [entry[0] for entry in own]
    if not values or None in values:
        raise ServerError(f"/generate: the server reported no log-probabilities for the choice {choice!r:.80}")
    return ChoiceScore(list(own), sum(values) / len(values))

"""What a row of the table of parameters says.

Where it stands in a round: nowhere; types. The rows are in `parameter_table`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Treatment(Enum):
    """What becomes of a parameter.

    HONOURED: at every node of a tree, by our code. ABSTAINS: the request decodes one token a round, exactly as alone,
    and the reason is counted. REFUSED: with a sentence, when the server starts or the request arrives. SGLANG: SGLang
    does it before the first round or after the last, as without speculation.
    """

    HONOURED = "honoured"
    ABSTAINS = "abstains"
    REFUSED = "refused"
    SGLANG = "SGLang's own"


class Parameter(NamedTuple):
    """One row. openai: the same under OpenAI's names. reason: what an abstaining round is counted under. tests: ids
    `path::name` of tests that fail when the treatment is dropped."""

    name: str
    treatment: Treatment
    how: str
    tests: tuple[str, ...] = ()
    openai: tuple[str, ...] = ()
    reason: str = ""


class Outside(NamedTuple):
    """Fields that touch no token and nothing that is returned about tokens, and why.

    generate: fields of `/generate`; openai: fields of the OpenAI endpoints.
    """

    why: str
    generate: tuple[str, ...] = ()
    openai: tuple[str, ...] = ()

"""What a draft model makes of the server's arguments.

Where it stands in a round: before all of them; `algorithm.handle_server_args` asks once, while the server starts.
"""

from __future__ import annotations

from typing import Any

from sgl_spec.errors import ConfigError
from sgl_spec.server.eagle.head_kind import HeadKind, head_kind

# What stock EAGLE is mostly run with. A round may take fewer steps, never more: SGLang keeps the slots for these.
BRANCHES = STEPS = 4
MOST_BRANCHES = MOST_STEPS = 16


def fill_in(server_args: Any) -> None:
    """Branches, steps and backend of the draft model, where the user left them open.

    Raises:
        ConfigError: the draft model cannot be read, or a flag cannot work with it.
    """
    kind = head_kind(server_args.speculative_draft_model_path, server_args.speculative_draft_model_revision)
    # Of one branch, attention backends are told by the same number that no tree is to come.
    _within(server_args, "speculative_eagle_topk", BRANCHES, 2, MOST_BRANCHES)
    _within(server_args, "speculative_num_steps", STEPS, 1, MOST_STEPS)
    if (server_args.page_size or 1) > 1:
        raise ConfigError(f"--page-size {server_args.page_size}: a draft model needs --page-size 1")
    _capture_states(server_args, kind)
    if server_args.device == "cpu" and server_args.speculative_draft_attention_backend is None:
        # The one CPU backend whose draft steps SGLang knows, under the name the CPU platform registers.
        server_args.speculative_draft_attention_backend = "intel_amx"


def _within(server_args: Any, field: str, default: int, least: int, most: int) -> None:
    value = getattr(server_args, field)
    if value is None:
        setattr(server_args, field, default)
    elif not least <= value <= most:
        flag = "--" + field.replace("_", "-")
        raise ConfigError(f"{flag} {value}: with a draft model, {least} to {most}")


def _capture_states(server_args: Any, kind: HeadKind) -> None:
    """The target hands out hidden states to a head. Its captured graphs do so only when clients might ask, too."""
    if kind is HeadKind.EAGLE3 and server_args.enable_return_hidden_states:
        raise ConfigError(
            "--enable-return-hidden-states: with an EAGLE-3 head the target hands out three layers' states, not those "
            "a client asks for; leave one of the two out"
        )
    if kind.reads_hidden_states and server_args.device != "cpu":
        server_args.enable_return_hidden_states = True

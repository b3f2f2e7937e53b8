"""What each call of a program did: the text, the counts and the speculation stats, as the server reported them.

Stands after a round: the server's accept path fills `meta_info`, this reads it. No SGLang import.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sgl_spec.errors import ServerError

MAX_RECORDS = 10_000


@dataclass(frozen=True)
class CallRecord:
    """One `gen` or `select` of one program run.

    Attributes:
        kind: "gen", or "select" (no token is generated: choices are scored in prefill).
        program, slot: the identity sent as the hint; `program` is None outside a run of an `@sgl.function`.
        text: the generated text, or the choice selected.
        prompt_tokens, completion_tokens, cached_tokens: tokens; for "select" summed over the choices scored.
        latency: seconds on this client's clock, from sending to the last byte.
        finish_reason: SGLang's type ("stop", "length"), None for "select".
        spec: `SpecStats.to_dict()` as the server reported it, None when it speculates not at all or otherwise.
        spec_verify_ct: target forwards that verified, as stock SGLang counts them; None without speculation.
        output_ids: token ids, when the endpoint was made with `keep_output_ids=True`.
        answer: 0, or, of a `gen` with `n` above 1, which of its answers this is: each has a record of its own, and all
            have the latency of the one request.
    """

    kind: Literal["gen", "select"]
    program: str | None
    slot: str
    text: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    latency: float
    finish_reason: str | None = None
    spec: Mapping[str, Any] | None = None
    spec_verify_ct: int | None = None
    output_ids: tuple[int, ...] | None = None
    answer: int = 0


class CallLog:
    """Thread-safe record of the newest calls (at most `MAX_RECORDS`, so a long-lived client stays bounded)."""

    def __init__(self) -> None:
        self._records: deque[CallRecord] = deque(maxlen=MAX_RECORDS)
        self._lock = threading.Lock()

    def add(self, record: CallRecord) -> None:
        with self._lock:
            self._records.append(record)

    def snapshot(self) -> tuple[CallRecord, ...]:
        """The records so far, in the order the calls finished."""
        with self._lock:
            return tuple(self._records)

    def reset(self) -> None:
        with self._lock:
            self._records.clear()


def gen_record(
    *,
    program: str | None,
    slot: str,
    text: str,
    meta_info: Mapping[str, Any],
    latency: float,
    output_ids: list[int] | None,
) -> CallRecord:
    """A record of one generation from the `meta_info` of the server's last answer to it."""
    return CallRecord(
        kind="gen",
        program=program,
        slot=slot,
        text=text,
        prompt_tokens=int(meta_info.get("prompt_tokens", 0)),
        completion_tokens=int(meta_info.get("completion_tokens", 0)),
        cached_tokens=int(meta_info.get("cached_tokens", 0)),
        latency=latency,
        finish_reason=(meta_info.get("finish_reason") or {}).get("type"),
        spec=spec_stats(meta_info.get("sgl_spec")),
        spec_verify_ct=meta_info.get("spec_verify_ct"),
        output_ids=tuple(output_ids) if output_ids is not None else None,
    )


def select_record(
    *, program: str | None, slot: str, choice: str, meta_infos: list[Mapping[str, Any]], latency: float
) -> CallRecord:
    """A record of one selection from the `meta_info` of every scoring request it made."""
    return CallRecord(
        kind="select",
        program=program,
        slot=slot,
        text=choice,
        prompt_tokens=sum(int(info.get("prompt_tokens", 0)) for info in meta_infos),
        completion_tokens=0,
        cached_tokens=sum(int(info.get("cached_tokens", 0)) for info in meta_infos),
        latency=latency,
    )


def check_answer(answer: Any) -> None:
    """Raises ServerError for an answer that is not a whole generation.

    SGLang answers 200 to a request it aborted half-way; an empty or cut text must not pass for the model's.
    """
    if not isinstance(answer, Mapping) or "text" not in answer or "meta_info" not in answer:
        raise ServerError(f"/generate: the server's answer has no text and meta_info: {str(answer)[:200]}")
    reason = answer["meta_info"].get("finish_reason") or {}
    if reason.get("type") == "abort":
        message = str(reason.get("message") or "(no message)")
        raise ServerError(
            f"/generate: the server aborted the request: {message}",
            status=reason.get("status_code"),
            server_message=message,
        )


def spec_stats(value: Any) -> Mapping[str, Any] | None:
    """The request's stats: SGLang reports one entry a round, each a running total, so the last is the truth."""
    entries = value if isinstance(value, list) else [value]
    dicts = [entry for entry in entries if isinstance(entry, Mapping)]
    return dicts[-1] if dicts else None

"""Records read the server's `meta_info` rightly, and the log is bounded and safe from many threads."""

from __future__ import annotations

import threading

import pytest

from sgl_spec.errors import ServerError
from sgl_spec.frontend import call_log
from sgl_spec.frontend.call_log import CallLog, CallRecord, check_answer, gen_record, spec_stats


def record(slot: str) -> CallRecord:
    return gen_record(program=None, slot=slot, text="", meta_info={}, latency=0.0, output_ids=None)


@pytest.mark.parametrize(
    ("reported", "stats"),
    [
        (None, None),
        ([], None),
        ({"rounds": 1}, {"rounds": 1}),
        ([{"rounds": 1}, {"rounds": 2}], {"rounds": 2}),
        ([{"rounds": 2}, None], {"rounds": 2}),
        ("nonsense", None),
    ],
)
def test_the_last_entry_is_the_truth(reported: object, stats: object) -> None:
    assert spec_stats(reported) == stats


def test_an_empty_meta_info_gives_zeros() -> None:
    assert (record("a").prompt_tokens, record("a").finish_reason, record("a").spec) == (0, None, None)


@pytest.mark.parametrize("answer", [None, [], {"text": "x"}, {"meta_info": {}}])
def test_what_is_no_answer_is_refused(answer: object) -> None:
    with pytest.raises(ServerError, match="no text and meta_info"):
        check_answer(answer)


def test_the_log_keeps_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_log, "MAX_RECORDS", 3)
    log = CallLog()
    for number in range(5):
        log.add(record(str(number)))
    assert [one.slot for one in log.snapshot()] == ["2", "3", "4"]
    log.reset()
    assert log.snapshot() == ()


def test_threads_lose_nothing_and_snapshots_do_not_break() -> None:
    log = CallLog()
    threads = [threading.Thread(target=lambda: [log.add(record("x")) for _ in range(200)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        log.snapshot()
    assert len(log.snapshot()) == 1600

"""The report SGLang's streamer reads: nothing until the request is over, the account once afterwards."""

from __future__ import annotations

from sgl_spec.server.report import Report


def test_slices_are_empty_until_closed() -> None:
    report = Report()
    assert report[0:7] == []
    report.close({"rounds": 3})
    assert report[0:50] == [{"rounds": 3}]
    assert report[49:50] == [{"rounds": 3}]  # the last chunk of a stream


def test_it_is_a_list_as_sglang_expects() -> None:
    assert isinstance(Report(), list)

"""The report SGLang's streamer reads: nothing until the request is over, the account once afterwards."""

from __future__ import annotations

from sgl_spec.server.report import Report


class Request:
    """As much of SGLang's Req as a report looks at."""

    def __init__(self) -> None:
        self.over = False

    def finished(self) -> bool:
        return self.over


def test_slices_are_empty_until_closed() -> None:
    request = Request()
    report = Report(request)
    assert report[0:7] == []
    report.close({"rounds": 3})
    assert report[0:50] == [{"rounds": 3}]
    assert report[49:50] == [{"rounds": 3}]  # the last chunk of a stream


def test_where_a_chunk_has_only_what_is_new_the_account_is_at_its_first_token() -> None:
    report = Report(Request(), incremental=True)
    assert report[0:7] == []
    report.close({"rounds": 3})
    assert report[7:9] == [*[None] * 7, {"rounds": 3}]
    assert report[:9] == report[0:9] == [{"rounds": 3}]
    assert report[-1] == {"rounds": 3}


def test_a_request_that_ends_in_its_prefill_has_an_account_of_no_rounds() -> None:
    request = Request()
    report = Report(request, ignored_hint="version")
    request.over = True
    (account,) = report[0:1]
    assert (account["rounds"], account["tokens"], account["ignored_hint"]) == (0, 0, "version")


def test_it_is_a_list_as_sglang_expects() -> None:
    assert isinstance(Report(Request()), list)

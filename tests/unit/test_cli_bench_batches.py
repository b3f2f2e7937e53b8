"""Tasks side by side: which are grouped, that they really overlap, and that nothing of their calls is lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sgl_spec.cli.bench.batches import batched, parse_batches
from sgl_spec.cli.bench.measure import Task, Workload
from sgl_spec.errors import ConfigError


def _workload(count: int, run: Any = lambda i: (i,)) -> Workload:
    tasks = [Task(f"t{i}", lambda server, key, i=i: lambda: run(i)) for i in range(count)]
    return Workload("copy", tuple(tasks))


def test_sizes_are_read() -> None:
    assert parse_batches("1, 8") == (1, 8)


@pytest.mark.parametrize(
    ("text", "said"), [("0", "'0'"), ("1,x", "'x'"), ("", "''"), ("257", "'257'"), ("8,8", "8 twice"), ("-1", "'-1'")]
)
def test_what_is_no_size_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_batches(text)


def test_one_at_a_time_is_the_workload_itself() -> None:
    workload = _workload(3)
    assert batched(workload, 1) is workload


@pytest.mark.parametrize(("count", "groups"), [(8, ["t0..t3", "t4..t7"]), (10, ["t0..t3", "t4..t7"]), (3, ["t0..t2"])])
def test_only_whole_batches_run_unless_there_is_none(count: int, groups: list[str]) -> None:
    found = batched(_workload(count), 4)
    assert [task.id for task in found.tasks] == groups
    assert (found.name, found.batch) == ("copy x4", 4)


def test_the_tasks_of_a_batch_overlap_and_their_calls_keep_the_order() -> None:
    meeting = threading.Barrier(4, timeout=20)  # broken, and so an error, unless four are there together

    def run(i: int) -> tuple[int, ...]:
        meeting.wait()
        return (i, 10 + i)

    (task,) = batched(_workload(4, run), 4).tasks
    assert task.prepare(None, "")() == (0, 10, 1, 11, 2, 12, 3, 13)


def test_an_error_of_one_task_is_the_batches() -> None:
    def run(i: int) -> tuple[int, ...]:
        return (1 // (i - 2),)

    (task,) = batched(_workload(4, run), 4).tasks
    with pytest.raises(ZeroDivisionError):
        task.prepare(None, "")()

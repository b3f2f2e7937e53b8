"""Tasks run side by side: a workload's tasks in groups, each group one task of its own that is timed as a whole.

What changes with the number of requests in a batch is how much a draft's verification costs, so each size is measured
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sgl_spec.cli.bench.fleet import Server
from sgl_spec.cli.bench.measure import Run, Task, Workload
from sgl_spec.errors import ConfigError
from sgl_spec.frontend.call_log import CallRecord


def parse_batches(text: str) -> tuple[int, ...]:
    """Batch sizes from a comma-separated list.

    Raises:
        ConfigError: one is no whole number from 1 to 256, or is given twice.
    """
    sizes = []
    for word in (word.strip() for word in text.split(",")):
        if not word.isdigit() or not 1 <= int(word) <= 256:
            raise ConfigError(f"--batch holds {word!r}; it must be whole numbers from 1 to 256, as in '1,8'.")
        if int(word) in sizes:
            raise ConfigError(f"--batch holds {word} twice; give each size once.")
        sizes.append(int(word))
    return tuple(sizes)


def batched(workload: Workload, size: int) -> Workload:
    """`workload` with `size` tasks at a time. Tasks that fill no whole batch are left out, unless there is no other."""
    if size == 1:
        return workload
    whole = len(workload.tasks) // size * size or len(workload.tasks)
    groups = [workload.tasks[start : start + size] for start in range(0, whole, size)]
    return Workload(f"{workload.name} x{size}", tuple(map(_together, groups)), size)


def _together(tasks: Sequence[Task]) -> Task:
    def prepare(server: Server, extra_key: str) -> Run:
        runs = [task.prepare(server, extra_key) for task in tasks]

        def run() -> tuple[CallRecord, ...]:
            with ThreadPoolExecutor(len(runs)) as pool:
                futures = [pool.submit(one) for one in runs]
            return tuple(call for future in futures for call in future.result())

        return run

    return Task(f"{tasks[0].id}..{tasks[-1].id}", prepare)

"""Programs as tasks that run on any server of a fleet: one task per input of the program."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from sgl_spec.cli.bench.fleet import Server
from sgl_spec.cli.bench.measure import Run, Task, Workload
from sgl_spec.drafting.hint import Hint
from sgl_spec.errors import ConfigError
from sgl_spec.frontend.program_file import LoadedProgram, load_program

DEMO_PROGRAMS = ("json_record.py", "quote_document.py", "react_agent.py")


def program_workload(spec: str, limit: int | None = None) -> Workload:
    """The first `limit` inputs of the program in `spec` (a path, or path:function).

    Raises:
        ConfigError: the program cannot be loaded.
    """
    loaded = load_program(spec)
    tasks = [
        Task(f"{loaded.name}-{index}", _preparation(loaded._replace(inputs=[arguments]), index))
        for index, arguments in enumerate(loaded.inputs[:limit])
    ]
    return Workload(loaded.name, tuple(tasks))


def default_programs() -> tuple[str, ...]:
    """The three programs of this project's repository, looked for here and beside the package.

    Raises:
        ConfigError: neither place has them.
    """
    import sgl_spec

    places = (Path("programs"), Path(sgl_spec.__file__).parents[1] / "programs")
    for place in places:
        if all((place / name).is_file() for name in DEMO_PROGRAMS):
            return tuple(str(place / name) for name in DEMO_PROGRAMS)
    raise ConfigError(
        f"The programs {', '.join(DEMO_PROGRAMS)} are neither in {places[0].absolute()} nor in {places[1]}; "
        f"run this command in a clone of the repository."
    )


def _preparation(loaded: LoadedProgram, seat: int) -> Callable[[Server, str], Run]:
    def prepare(server: Server, extra_key: str) -> Run:
        from sgl_spec.frontend.program_main import run_inputs

        endpoint = _endpoint(server.url, extra_key, server.mode.hint, seat)
        return lambda: run_inputs(loaded, endpoint)[0].calls

    return prepare


@lru_cache(maxsize=256)
def _endpoint(url: str, extra_key: str, hint: Hint, seat: int) -> Any:
    """One endpoint per mode, pass and task, for an endpoint records the calls of one run at a time; kept because
    making one asks the server for its model."""
    from sgl_spec.frontend.endpoint import Endpoint

    return Endpoint(
        url,
        keep_output_ids=True,
        extra_key=extra_key,
        speculate=not hint.off,
        origins=hint.origins,
        memory=hint.memory,
        width=hint.width,
    )

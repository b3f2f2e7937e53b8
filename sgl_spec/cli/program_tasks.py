"""Programs as tasks that run on any server of a fleet: one task per input of the program."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sgl_spec.cli.bench.fleet import Server
from sgl_spec.cli.bench.measure import Runner, Task, Workload
from sgl_spec.errors import ConfigError
from sgl_spec.frontend.call_log import CallRecord
from sgl_spec.frontend.program_file import LoadedProgram, load_program

DEMO_PROGRAMS = ("json_record.py", "quote_document.py", "react_agent.py")


def program_workload(spec: str, limit: int | None = None) -> Workload:
    """The first `limit` inputs of the program in `spec` (a path, or path:function).

    Raises:
        ConfigError: the program cannot be loaded.
    """
    loaded = load_program(spec)
    tasks = [
        Task(f"{loaded.name}-{index}", _runner(loaded._replace(inputs=[arguments])))
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


def _runner(loaded: LoadedProgram) -> Runner:
    def run(server: Server) -> tuple[CallRecord, ...]:
        from sgl_spec.frontend.program_main import run_inputs

        return run_inputs(loaded, _endpoint(server.url))[0].calls

    return run


@lru_cache(maxsize=32)
def _endpoint(url: str) -> Any:
    """One endpoint per server: making one asks the server for its model, which must not be timed with the program."""
    from sgl_spec.frontend.endpoint import Endpoint

    return Endpoint(url, keep_output_ids=True)

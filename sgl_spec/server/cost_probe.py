"""What a verify forward costs on this machine: measured on the running server before its first request, kept in the
user's cache for this machine and model alone, and read from there at the next start.

Where it stands in a round: before the first; the width rule corrects the table in every round that follows. Dummy
requests are verified, chains of token 0 over a context that nobody computed: no time depends on what the numbers are.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode

from sgl_spec.bundled_model import cache_dir
from sgl_spec.drafting.cost_model import PRIOR, VERSION, CostTable, checked
from sgl_spec.drafting.flat_tree import flatten
from sgl_spec.drafting.tree import Chain, DraftTree
from sgl_spec.drafting.whole_file import write_whole
from sgl_spec.errors import CostTableError
from sgl_spec.server import verify_input
from sgl_spec.server.model_name import model_name

logger = logging.getLogger(__name__)

FOLDER = "costs"
# Row counts between which times are interpolated: the matrix kernels of CPUs have their steps near powers of two.
ROWS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
# Passes over all of them, one after the other, so that a neighbour's minute does not hit one row count alone; the
# fastest counts, as whatever disturbs a forward makes it slower.
PASSES = 3
# What is compiled or paged in at first use is so in a pass that does not count. No more is begun after so long, each.
WARM_SECONDS = MOST_SECONDS = 8.0
# A table that ends below would say that rows cost in proportion, which is not what was measured.
LEAST_ROWS = 16
# For what a key costs: contexts that differ, at a width that few machines take longer for than for one row.
SHORT_CONTEXT, LONG_CONTEXT, CONTEXT_WIDTH = 16, 1024, 8

Forward = Callable[[int, int], float]


class Fingerprint(NamedTuple):
    """What the times belong to. Any difference makes a table worthless."""

    version: int
    what: str
    machine: str
    processor: str
    threads: int
    model: str
    dtype: str
    torch: str

    def name(self) -> str:
        """Of the file, different for every fingerprint."""
        return hashlib.blake2b(json.dumps(self).encode(), digest_size=12).hexdigest() + ".json"


def cost_table(model_runner: Any) -> CostTable:
    """The table of verifying on this server."""

    def measure() -> CostTable:
        most = _most_rows(model_runner)
        return measured(lambda width, context: timed_forward(model_runner, width, context), most)

    return kept_or_measured("verifying", model_runner, measure, PRIOR)


def kept_or_measured(what: str, model_runner: Any, measure: Callable[[], CostTable], prior: CostTable) -> CostTable:
    """A table from the cache where it holds one for this machine and model, else measured now.

    Never fails a start: what cannot be measured or kept is logged, and the prior stands in.

    Args:
        what: is measured, for the log; a model has one table for each.
        measure: takes a few seconds at most.
    """
    fingerprint = fingerprint_of(model_runner, what)
    path = cache_dir() / FOLDER / fingerprint.name()
    try:
        kept = load(path, fingerprint)
        if kept is not None:
            logger.info("cost of %s: read from %s", what, path)
            return kept
    except CostTableError as error:
        logger.warning("%s; it is measured anew", error)
    try:
        began = time.perf_counter()
        table = checked(measure())
    except Exception as error:  # whatever a model cannot do with a dummy batch is no reason not to serve
        logger.warning("cost of %s: not measured (%s: %s); a prior is used", what, type(error).__name__, error)
        return prior
    logger.info("cost of %s: measured in %.1f s: %s", what, time.perf_counter() - began, described(table))
    try:
        save(path, fingerprint, table)
    except OSError as error:
        logger.warning("cost of %s: cannot be kept in %s: %s", what, path, error)
    return table


def described(table: CostTable) -> str:
    """For the log: rows and milliseconds."""
    pairs = zip(table.rows, table.seconds, strict=True)
    return ", ".join(f"{rows} rows {1e3 * seconds:.1f} ms" for rows, seconds in pairs)


def fingerprint_of(model_runner: Any, what: str) -> Fingerprint:
    """Of this process, this machine, and what is measured of the model it serves."""
    config = model_runner.model_config
    device = model_runner.device
    processor = torch.cuda.get_device_name() if str(device).startswith("cuda") else _processor_name()
    return Fingerprint(
        VERSION, what, f"{platform.node()} {platform.machine()}", processor, torch.get_num_threads(),
        model_name(config), str(config.dtype), torch.__version__,
    )  # fmt: skip


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def load(path: Path, fingerprint: Fingerprint) -> CostTable | None:
    """The table kept in `path`; None where there is none.

    Raises:
        CostTableError: the file is damaged, or of another fingerprint.
    """
    try:
        held = json.loads(path.read_text())
        if held["fingerprint"] != list(fingerprint):
            raise CostTableError(f"cost table {path} is of another machine, model or version: {held['fingerprint']}")
        return checked(CostTable(tuple(held["rows"]), tuple(held["seconds"]), held["per_key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, CostTableError):
            raise
        raise CostTableError(f"cost table {path} cannot be read: {type(error).__name__}: {error}") from error


def save(path: Path, fingerprint: Fingerprint, table: CostTable) -> None:
    """Keep the table. Raises OSError where it cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"fingerprint": list(fingerprint), **table._asdict()}).encode())


def measured(forward: Forward, most_rows: int) -> CostTable:
    """The table of `forward`, which verifies one request of a width and context and says how many seconds it took.

    Row counts are of one request: for the linear layers, which cost most, rows are rows, whosever they are.

    Raises:
        CostTableError: the machine was too slow for a table worth having.
    """
    wanted = [rows for rows in ROWS if rows <= most_rows]
    _timed(forward, wanted, WARM_SECONDS)
    fastest = _timed(forward, wanted * PASSES, MOST_SECONDS)
    ascending = tuple(sorted(fastest))
    if ascending[-1] < min(LEAST_ROWS, wanted[-1]):
        raise CostTableError(f"{ascending[-1]} rows were all that {MOST_SECONDS} seconds sufficed for")
    return CostTable(ascending, tuple(fastest[rows] for rows in ascending), _per_key(forward))


def _timed(forward: Forward, counts: Sequence[int], most_seconds: float) -> dict[int, float]:
    """The fastest forward of each row count; at least of the first."""
    began = time.perf_counter()
    fastest: dict[int, float] = {}
    for rows in counts:
        if fastest and time.perf_counter() - began > most_seconds:
            break
        seconds = forward(rows, SHORT_CONTEXT)
        fastest[rows] = min(seconds, fastest.get(rows, seconds))
    return fastest


def _per_key(forward: Forward) -> float:
    short, long = (
        min(forward(CONTEXT_WIDTH, context) for _ in range(PASSES + 1)) for context in (SHORT_CONTEXT, LONG_CONTEXT)
    )
    return max(long - short, 0.0) / (CONTEXT_WIDTH * (LONG_CONTEXT - SHORT_CONTEXT))


def _most_rows(model_runner: Any) -> int:
    """What the pools have room for beside the longest context."""
    return int(min(ROWS[-1], model_runner.token_to_kv_pool.size - LONG_CONTEXT - 1))


@torch.no_grad()
def timed_forward(model_runner: Any, width: int, context: int) -> float:
    """Seconds that verifying a chain of `width` tokens after `context` others takes. Only for a server without
    requests: the first rows of its pools are used, and left as they were."""
    pool = model_runner.req_to_token_pool.req_to_token
    before = pool[0, : context + width].clone()
    pool[0, : context + width] = torch.arange(1, context + width + 1, dtype=pool.dtype, device=pool.device)
    try:
        batch = _batch(model_runner, width, context)
        model_runner.attn_backend.init_forward_metadata(batch)
        began = time.perf_counter()
        model_runner.forward(batch)
        if str(model_runner.device) != "cpu":
            torch.get_device_module(model_runner.device).synchronize()
        return time.perf_counter() - began
    finally:
        pool[0, : context + width] = before


def _batch(model_runner: Any, width: int, context: int) -> ForwardBatch:
    device = model_runner.device
    tree = DraftTree(0)
    if width > 1:
        tree.graft(Chain((0,) * (width - 1), (0.5,) * (width - 1), "probe"))
    lengths = torch.tensor([context], dtype=torch.int64)
    seq_lens = lengths.to(device)
    verify = verify_input.build([flatten(tree, width)], seq_lens, lengths, full_mask=str(device) != "cpu")
    return ForwardBatch(
        forward_mode=ForwardMode.TARGET_VERIFY, batch_size=1, input_ids=verify.draft_token,
        req_pool_indices=torch.zeros(1, dtype=torch.int64, device=device), seq_lens=seq_lens, seq_lens_cpu=lengths,
        orig_seq_lens=seq_lens, seq_lens_sum=context, positions=verify.positions,
        out_cache_loc=torch.arange(context + 1, context + width + 1, dtype=torch.int64, device=device),
        spec_algorithm=model_runner.spec_algorithm, spec_info=verify, capture_hidden_mode=CaptureHiddenMode.NULL,
    )  # fmt: skip

"""The memory of past outputs over the life of a server: read from its file at start, written back while it grows.

Where it stands in a round: before the first, and beside them all. A file that cannot be used is left as it is and said
so in the log; the server starts with an empty memory.
"""

from __future__ import annotations

import atexit
import logging
from pathlib import Path

from sgl_spec.config import SpecConfig
from sgl_spec.drafting.memory.memory_file import MemoryIdentity, load
from sgl_spec.drafting.memory.memory_saver import MemorySaver
from sgl_spec.drafting.memory.output_memory import OutputMemory
from sgl_spec.errors import MemoryFileError

logger = logging.getLogger(__name__)

# A server is often ended without a word, so little may be lost; a save takes some 50 ms of a thread's time.
_SAVE_EVERY_S = 5.0


def open_memory(config: SpecConfig, identity: MemoryIdentity | None, saves: bool) -> OutputMemory | None:
    """The server's memory; None when the configuration keeps none.

    Args:
        identity: of tokenizer and vocabulary; None when the server has no tokenizer to check a file against.
        saves: whether this process writes the file. Of the ranks of one server one does; all read it.
    """
    if not config.memory_tokens:
        return None
    empty = OutputMemory(config.memory_tokens, config.memory_slot_tokens)
    if config.memory_file is None:
        return empty
    path = Path(config.memory_file)
    if identity is None:
        logger.error("memory file %s is not used: without a tokenizer it cannot be checked", path)
        return empty
    try:
        memory = load(path, identity, config.memory_tokens, config.memory_slot_tokens)
    except MemoryFileError as error:
        logger.error("%s; the server starts with an empty memory and leaves that file alone", error)
        return empty
    logger.info("memory file %s: %d slots and programs, %d tokens", path, len(memory), memory.tokens_held)
    if saves:
        atexit.register(MemorySaver(memory, path, identity, _SAVE_EVERY_S).close)
    return memory

"""The calibration tables over the life of a server: read from their file at start, written back while they grow.

Where it stands in a round: before the first, and beside them all. A file that cannot be used is left as it is and said
so in the log; the server starts with what the drafters say, and learns anew.
"""

from __future__ import annotations

import atexit
import logging
from pathlib import Path

from sgl_spec.config import SpecConfig
from sgl_spec.drafting.calibration.calibration_file import load, save
from sgl_spec.drafting.calibration.tables import Calibration
from sgl_spec.drafting.file_saver import FileSaver
from sgl_spec.errors import CalibrationFileError

logger = logging.getLogger(__name__)

# A save takes some 50 ms of a thread's time, and what is lost is soon learned again.
_SAVE_EVERY_S = 30.0


def open_calibration(config: SpecConfig, model: str, saves: bool) -> Calibration | None:
    """The server's tables; None when the configuration wants none.

    Args:
        model: names the model, for the file.
        saves: whether this process writes the file. Of the ranks of one server one does; all read it.
    """
    if not config.calibrated:
        return None
    if config.calibration_file is None:
        return Calibration()
    path = Path(config.calibration_file)
    try:
        calibration = load(path, model)
    except CalibrationFileError as error:
        logger.error("%s; the server starts without it and leaves that file alone", error)
        return Calibration()
    logger.info(
        "calibration file %s: %d sets of origins, %d slots", path, calibration.sets_known, len(calibration.slots)
    )
    if saves:
        saver = FileSaver(
            "calibration tables", lambda: calibration.changes, lambda: save(calibration, path, model), _SAVE_EVERY_S
        )
        atexit.register(saver.close)
    return calibration

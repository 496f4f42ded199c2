"""A finished model as one file, to take elsewhere."""

import tempfile
import zipfile
from typing import IO

from data.workspace import workspace
from training.runs import Run


def zipped_model(run: Run) -> IO[bytes]:
    """Return the run's model as an open zip, read from its start; the file is gone once closed.

    Stored and not deflated: weights do not get smaller. Raises `OSError` where the disk is full.
    """
    file = tempfile.TemporaryFile(dir=workspace(), suffix=".zip")  # noqa: SIM115 - the caller reads it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(run.model_folder.rglob("*")):
            archive.write(path, f"{run.id}/{path.relative_to(run.model_folder).as_posix()}")
    file.seek(0)
    return file

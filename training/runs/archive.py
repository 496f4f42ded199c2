"""A finished model as one file, to take elsewhere."""

import os
import tempfile
import zipfile
from io import BufferedReader

from data.workspace import workspace
from training.runs.runs import Run


def zipped_model(run: Run) -> BufferedReader:
    """Return the run's model as an open zip, read from its start; the file is gone once closed.

    Stored and not deflated: weights do not get smaller. Raises `OSError` where the disk is full.
    """
    with tempfile.TemporaryFile(dir=workspace(), suffix=".zip") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(run.model_folder.rglob("*")):
                archive.write(path, f"{run.id}/{path.relative_to(run.model_folder).as_posix()}")
        file.seek(0)
        return os.fdopen(os.dup(file.fileno()), "rb")  # a reader of its own: it outlives the writer

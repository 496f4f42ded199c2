"""A process that outlives whoever starts it: the page may be closed, the server may end."""

import os
import subprocess
import sys
from pathlib import Path

from data.workspace import PROJECT, workspace


def detached(module: str, *words: object, log: Path) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE WORDS` on its own; what it writes is added to `log`. Raises `OSError`: a full disk."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - a list of our own words
            [sys.executable, "-m", module, *map(str, words)],
            cwd=PROJECT,
            env={**os.environ, "MRC_WORKSPACE": str(workspace()), "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

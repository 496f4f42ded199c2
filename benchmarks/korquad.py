"""Where the real data is: KorQuAD 1.0 dev in the folder that MRC_DATA names."""

import os
import sys
from pathlib import Path

NAME = "KorQuAD_v1.0_dev.json"


def korquad() -> Path:
    """Return the file's path; ends the program with a hint where it is not there."""
    path = Path(os.environ.get("MRC_DATA", "")) / NAME
    if not path.is_file():
        sys.exit(f"set MRC_DATA to the folder that holds {NAME}")
    return path

"""JSON files that hold what people entered. A damaged one is set aside before a new one takes its place.

Entries that cannot be read are skipped one by one: the others of the file stay usable.
"""

import json
import logging
import shutil
from itertools import count
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
_ENDING = ".damaged"


def read_user_file(path: Path) -> tuple[dict[str, Any], bool]:
    """Return the object that a file holds, empty where there is none, and whether the file is damaged.

    Raises `OSError` where the file is there and the system cannot read it: nothing is known of its content then.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, False
    except (ValueError, RecursionError):  # the last where it is nested thousands deep
        return {}, True
    return (content, False) if isinstance(content, dict) else ({}, True)


def set_aside(path: Path) -> Path:
    """Copy a damaged file to a name of its own beside it: `NAME.damaged`, then `NAME.damaged-2`.

    Raises `OSError` where that fails: the file must not be overwritten then.
    """
    names = (path.with_name(f"{path.name}{_ENDING}{f'-{number}' if number > 1 else ''}") for number in count(1))
    copy = next(name for name in names if not name.exists())
    shutil.copy2(path, copy)
    logger.warning("%s is damaged; it is kept as %s", path, copy.name)
    return copy


def damaged_copies(path: Path) -> list[Path]:
    """Return the files that `set_aside` made of a file."""
    return sorted(path.parent.glob(f"{path.name}{_ENDING}*"))

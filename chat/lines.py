"""Files of JSON lines to which answers are added as they come: what is there stays, however the work ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def append_line(path: Path, entry: dict[str, Any]) -> None:
    """Add an object to a file, made where there is none; for one thread at a time. Raises `OSError`: a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps(entry, ensure_ascii=False)}")  # led by the break: a torn line spoils no other


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; what cannot be read, as a line torn by a kill, is passed over."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return
    for line in filter(None, lines):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry

"""What a power cut, a disk and a hand do to files: drawn by a fixed seed, the same every time.

`MRC_ATTACK=20 pytest tests/hostile` draws twenty times as many.
"""

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TIMES = int(os.environ.get("MRC_ATTACK") or 1)
DEEP = b"[" * 200_000
_VALUES = (None, True, -1, 2**70, 1e308, float("nan"), "", "abc", "\0", "../..", [], {}, [None], {"a": {}}, "0" * 5000)


def _cut(content: bytes, drawn: np.random.Generator) -> bytes:
    return content[: drawn.integers(0, len(content))]


def _zeros(content: bytes, drawn: np.random.Generator) -> bytes:
    start, length = drawn.integers(0, len(content)), drawn.integers(1, 512)
    return content[:start] + bytes(len(content[start : start + length])) + content[start + length :]


def _bit(content: bytes, drawn: np.random.Generator) -> bytes:
    place = drawn.integers(0, len(content))
    return content[:place] + bytes([content[place] ^ 1 << drawn.integers(0, 8)]) + content[place + 1 :]


def _noise(content: bytes, drawn: np.random.Generator) -> bytes:
    start, length = drawn.integers(0, len(content)), drawn.integers(1, 64)
    return content[:start] + drawn.bytes(len(content[start : start + length])) + content[start + length :]


def _longer(content: bytes, drawn: np.random.Generator) -> bytes:
    return content + drawn.bytes(drawn.integers(1, 100))


def _other(_: bytes, drawn: np.random.Generator) -> bytes:
    return [b"", b"text", b"\x80\x04N.", b"\x93NUMPY", b"PK\x03\x04", DEEP, b"\xff\xfe"][drawn.integers(0, 7)]


DAMAGES: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (_cut, _zeros, _bit, _noise, _longer, _other)


def damaged(content: bytes, drawn: np.random.Generator) -> bytes:
    """Return other bytes than the content."""
    while (found := DAMAGES[drawn.integers(0, len(DAMAGES))](content, drawn)) == content:
        continue
    return found


def overwrite(path: Path, content: bytes, drawn: np.random.Generator) -> None:
    """Write into the file as it lies there, as disks do; now and then its time stays what it was."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    if drawn.integers(0, 2):
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def damaged_json(content: bytes, drawn: np.random.Generator) -> bytes:
    """Return JSON of another content: a value gone, or of another type; now and then no JSON at all."""
    if drawn.integers(0, 5) == 0:
        return damaged(content, drawn)
    changed = copy.deepcopy(json.loads(content))
    places = [*_places(changed)]
    if not places:
        return damaged(content, drawn)
    holder, key = places[drawn.integers(0, len(places))]
    if drawn.integers(0, 4) == 0:
        del holder[key]
    else:
        holder[key] = _VALUES[drawn.integers(0, len(_VALUES))]
    return json.dumps(changed).encode()


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield content, key
            yield from _places(value)

"""What a power cut, a disk and a hand do to files: drawn by a fixed seed, the same every time.

`MRC_ATTACK=20 pytest tests/hostile` draws twenty times as many.
"""

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TIMES = int(os.environ.get("MRC_ATTACK") or 1)
DEEP = b"[" * 200_000
_OTHER_FILES = (b"", b"text", b"\x80\x04N.", b"\x93NUMPY", b"PK\x03\x04", DEEP, b"\xff\xfe")
_VALUES = (None, True, -1, 2**70, 1e308, float("nan"), "", "abc", "\0", "../..", [], {}, [None], {"a": {}}, "0" * 5000)


def _damage(content: bytes, rng: np.random.Generator) -> bytes:
    kind = rng.integers(0, 6)
    if kind == 4:
        return content + rng.bytes(rng.integers(1, 100))
    if kind == 5:
        return _OTHER_FILES[rng.integers(0, len(_OTHER_FILES))]
    start = rng.integers(0, len(content))
    if kind == 0:
        return content[:start]
    if kind == 1:  # zeros, as after a power cut
        length = rng.integers(1, 512)
        return content[:start] + bytes(len(content[start : start + length])) + content[start + length :]
    if kind == 2:  # a flipped bit
        return content[:start] + bytes([content[start] ^ 1 << rng.integers(0, 8)]) + content[start + 1 :]
    length = rng.integers(1, 64)
    return content[:start] + rng.bytes(len(content[start : start + length])) + content[start + length :]


def damage_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Return other bytes than the content."""
    while (result := _damage(content, rng)) == content:
        continue
    return result


def overwrite(path: Path, content: bytes, rng: np.random.Generator) -> None:
    """Write into the file in place, as disks do; sometimes its time stays the same."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    if rng.integers(0, 2):
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def damage_json(content: bytes, rng: np.random.Generator) -> bytes:
    """Return JSON of another content: a value gone, or of another type; now and then no JSON at all."""
    if rng.integers(0, 5) == 0:
        return damage_bytes(content, rng)
    changed = copy.deepcopy(json.loads(content))
    entries = [*_json_entries(changed)]
    if not entries:
        return damage_bytes(content, rng)
    holder, key = entries[rng.integers(0, len(entries))]
    if rng.integers(0, 4) == 0:
        del holder[key]
    else:
        holder[key] = _VALUES[rng.integers(0, len(_VALUES))]
    return json.dumps(changed).encode()


def _json_entries(content: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield content, key
            yield from _json_entries(value)

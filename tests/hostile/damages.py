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


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(0, len(content))]


def _zeros(content: bytes, rng: np.random.Generator) -> bytes:
    start = rng.integers(0, len(content))
    length = rng.integers(1, 512)
    return content[:start] + bytes(len(content[start : start + length])) + content[start + length :]


def _flip_bit(content: bytes, rng: np.random.Generator) -> bytes:
    position = rng.integers(0, len(content))
    return content[:position] + bytes([content[position] ^ 1 << rng.integers(0, 8)]) + content[position + 1 :]


def _noise(content: bytes, rng: np.random.Generator) -> bytes:
    start = rng.integers(0, len(content))
    length = rng.integers(1, 64)
    return content[:start] + rng.bytes(len(content[start : start + length])) + content[start + length :]


def _append_noise(content: bytes, rng: np.random.Generator) -> bytes:
    return content + rng.bytes(rng.integers(1, 100))


def _replace_all(_: bytes, rng: np.random.Generator) -> bytes:
    return [b"", b"text", b"\x80\x04N.", b"\x93NUMPY", b"PK\x03\x04", DEEP, b"\xff\xfe"][rng.integers(0, 7)]


DAMAGES: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    _cut,
    _zeros,
    _flip_bit,
    _noise,
    _append_noise,
    _replace_all,
)


def damage_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Return other bytes than the content."""
    while (result := DAMAGES[rng.integers(0, len(DAMAGES))](content, rng)) == content:
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

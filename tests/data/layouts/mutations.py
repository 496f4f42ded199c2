"""Random damage to a JSON value: keys renamed, values removed, emptied, nested, or replaced by another kind."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

_OTHERS: tuple[Any, ...] = (None, "", "글", 7, True, [], {}, ["글"], {"글": "글"}, [None], [[]], [{}], 1.5, " \n")
Position = tuple[Any, Any]  # a list or an object, and a position or key in it


def mutate(content: bytes, seed: int, count: int = 3) -> bytes:
    """Return a JSON or JSONL file with up to `count` random changes."""
    rng = random.Random(seed)
    text = content.decode()
    values = parse_values(text)
    for _ in range(rng.randint(1, count)):
        positions = [position for value in values for position in _positions(value)]
        if positions:
            _change(*rng.choice(positions), rng)
    lines = [json.dumps(value, ensure_ascii=False) for value in values]
    return "\n".join(lines).encode()


def parse_values(text: str) -> list[Any]:
    """Return the value of a JSON text, or those of its lines."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line]


def _positions(value: Any) -> Iterator[Position]:
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _positions(value[key])


def _change(holder: Any, key: Any, rng: random.Random) -> None:
    match rng.randint(0, 5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            value = holder.pop(key)
            holder[rng.choice(["이름", "questions", "context", "data", "id", "text", "answers", f"{key}2"])] = value
        case 2:
            holder[key] = [copy.deepcopy(holder[key])]
        case 3:
            holder[key] = {rng.choice(["text", "data", "이름"]): copy.deepcopy(holder[key])}
        case 4 if isinstance(holder, list):
            holder.insert(rng.randint(0, len(holder)), copy.deepcopy(holder[key]))
        case _:
            holder[key] = copy.deepcopy(rng.choice(_OTHERS))

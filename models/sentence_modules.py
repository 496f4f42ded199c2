"""What makes a sentence encoder of a transformer: pooling, prompts, how much is read. Small files beside its weights.

A base that is a sentence encoder stays one where it learns to guess hidden tokens: these files are written beside the
new weights, so that sentence-transformers pools and prompts as before. Plain transformers do not look at them.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from data.workspace import write_text

_LIST = "modules.json"
_PROMPTS, _READING = "config_sentence_transformers.json", "sentence_bert_config.json"
_WITHOUT_WEIGHTS = ("Pooling", "Normalize")
_PLACE = re.compile(r"\w{1,64}")  # of a module: its name becomes a folder's


def sentence_modules(find: Callable[[str], Path | None]) -> dict[str, str]:
    """Return those files by their names, the transformer's own place being the top; empty where it is no encoder.

    `find` returns a file of the base by its name. A base with other modules, such as layers of their own, has none:
    what they learned fits the base's vectors alone.
    """
    listed = find(_LIST)
    try:
        first, *others = json.loads(listed.read_text(encoding="utf-8")) if listed else []
        fitting = all(one["type"].startswith("sentence_transformers.") for one in (first, *others))
        fitting &= all(one["type"].rpartition(".")[2] in _WITHOUT_WEIGHTS for one in others)
        fitting &= all(_PLACE.fullmatch(one["path"]) for one in others)
        at = first["path"] if _PLACE.fullmatch(first["path"]) else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    if not fitting:
        return {}
    found = {_LIST: json.dumps([{**first, "path": ""}, *others], indent=2)}
    for name in (_PROMPTS, *(f"{one['path']}/config.json" for one in others)):
        if path := find(name):
            found[name] = path.read_text(encoding="utf-8")
    if path := find(f"{at}/{_READING}" if at else _READING):
        found[_READING] = path.read_text(encoding="utf-8")
    return found


def write_sentence_modules(folder: Path, files: Mapping[str, str]) -> None:
    """Write them into a model's folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_text(folder / name, text)

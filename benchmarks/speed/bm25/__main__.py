"""Takes one step: `python -m benchmarks.speed.bm25 STEP FOLDER [WORD ...]`; prints what came out as JSON."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.speed.bm25 import steps

STEPS: dict[str, Callable[..., object]] = {
    "corpus": steps.make_corpus,
    "build": steps.build,
    "open": steps.open_twice,
    "search": steps.search,
}

if __name__ == "__main__":
    logging.disable(logging.INFO)
    print(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])))

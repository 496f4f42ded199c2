"""How charts are drawn: colours and marks of retrievers, the same everywhere, and charts made pictures in a process.

That process is their own: the renderer is native, and what it cannot take ends it. No library of charts is imported.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from mrc_workbench.data.formats.tables import mend
from mrc_workbench.data.workspace import IMPORT_ROOT

# Okabe and Ito's colours, then four that stay apart from them and from each other, also for colour-blind readers; every
# colour has a contrast of at least 2:1 on the light and on the dark background
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#6782FB", "#666666", "#7B2FF2", "#BB1D33")
# marks, and the same as text
LETTERS = {"circle": "●", "square": "■", "triangle-up": "▲", "diamond": "◆", "cross": "✚", "triangle-down": "▼"}
SHAPES = tuple(LETTERS)
READABLE = "#7c818c"  # on light and dark alike: figures inside a chart do not follow the theme
# The stages that lose a question (`retrieval.analysis.questions.Fate`), from grey to dark red: a stage must not look
# like a retriever
FATE_COLOURS = {
    "below": "#B9A6A2",
    "not_found": "#5E6066",
    "not_a_candidate": "#8E9098",
    "lost_in_fusion": "#C4776B",
    "lost_in_reranking": "#8F3B36",
}


def colour_of(name: str, names: Sequence[str]) -> str:
    """Return the colour of a retriever; `names` are all that can be picked, in their fixed order."""
    return PALETTE[list(names).index(name) % len(PALETTE)]


def shape_of(name: str, names: Sequence[str]) -> str:
    """Return the mark of a retriever, so that colour alone never tells."""
    return SHAPES[list(names).index(name) % len(SHAPES)]


def letter_of(name: str, names: Sequence[str]) -> str:
    """Return the same mark as a character, for a legend in text."""
    return LETTERS[shape_of(name, names)]


def can_draw() -> bool:
    """Whether the renderer of charts is installed: the extra `app` brings it."""
    return find_spec("vl_convert") is not None


def draw(specifications: Sequence[dict[str, Any]]) -> list[str | None]:
    """Return the SVG of each Vega-Lite specification, None for one at which the renderer failed or its process ended.

    All are None if `can_draw` is false. What XML forbids is replaced in its texts: an SVG could not hold it.
    """
    if not can_draw():
        return [None] * len(specifications)
    lines = [json.dumps(_mended(one)).encode() + b"\n" for one in specifications]
    drawn: list[str | None] = []
    while left := lines[len(drawn) :]:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "mrc_workbench.retrieval.report.drawing"],
                cwd=IMPORT_ROOT,
                input=b"".join(left),
                capture_output=True,
                timeout=60 + 30 * len(left),  # seconds: to begin on a busy machine, and for each
                check=False,
            )
            answered = done.stdout
        except subprocess.TimeoutExpired as late:
            answered = late.stdout or b""
        drawn += [json.loads(line) for line in answered.splitlines(keepends=True) if line.endswith(b"\n")]
        if len(drawn) < len(lines):
            drawn.append(None)  # the process ended here; another one goes on behind it
    return drawn


def _mended(value: Any) -> Any:
    if isinstance(value, dict):
        return {_mended(name): _mended(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_mended(one) for one in value]
    return mend(value) if isinstance(value, str) else value


def main() -> None:
    """Answer each line of the input, a specification, with a line: the picture, or null."""
    import vl_convert

    for line in sys.stdin.buffer:
        try:
            drawn = vl_convert.vegalite_to_svg(json.loads(line))
        except ValueError:
            drawn = None
        sys.stdout.write(json.dumps(drawn) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

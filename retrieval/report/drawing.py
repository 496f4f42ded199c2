"""Charts become pictures in a process of their own: the renderer is native, and what it cannot take ends it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from data.formats.tables import mend
from data.workspace import PROJECT

_SECONDS, _SECONDS_A_CHART = 60, 30  # to begin on a busy machine, and for each


def draw(specifications: Sequence[dict[str, Any]]) -> list[str | None]:
    """Return the SVG of each Vega-Lite specification, None for one at which the renderer failed or its process ended.

    What XML forbids is replaced in its texts: an SVG could not hold it.
    """
    lines = [json.dumps(_mended(one)).encode() + b"\n" for one in specifications]
    drawn: list[str | None] = []
    while len(drawn) < len(lines):
        drawn += _drawn(lines[len(drawn) :])
        if len(drawn) < len(lines):
            drawn.append(None)  # the process ended here; another one goes on behind it
    return drawn


def _drawn(lines: list[bytes]) -> list[str | None]:
    """The answers of one process, fewer than lines where it ended early."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "retrieval.report.drawing"],
            cwd=PROJECT,
            input=b"".join(lines),
            capture_output=True,
            timeout=_SECONDS + _SECONDS_A_CHART * len(lines),
            check=False,
        )
        answered = done.stdout
    except subprocess.TimeoutExpired as late:
        answered = late.stdout or b""
    return [json.loads(line) for line in answered.splitlines(keepends=True) if line.endswith(b"\n")]


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

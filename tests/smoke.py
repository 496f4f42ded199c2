"""Runs an installed package as a user does, in an empty folder: `cd EMPTY && PYTHON -P .../tests/smoke.py`.

`make package` runs it with the Python of an environment that holds only the wheel. It needs no checkout and imports
only the standard library.
"""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

MRC = str(Path(sys.executable).with_name("mrc"))
EXPERIMENT = """data = "sample"
ks = [1, 10]

[[retriever]]
name = "words"
kind = "bm25"
analyzer = "word"

[[retriever]]
name = "bigrams"
kind = "bm25"
analyzer = "bigram"
"""


def mrc(*arguments: str) -> str:
    """Return what the command prints. Raises `CalledProcessError` if it fails."""
    return subprocess.run([MRC, *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    """Read the sample, compare two retrievers and check the files of the comparison. Raises `AssertionError`."""
    code = "import mrc_workbench; print(mrc_workbench.__file__)"
    command = [sys.executable, "-P", "-c", code]
    location = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    assert Path(sys.prefix) in Path(location.strip()).parents, location
    assert "compare" in mrc("--help")
    assert "passages" in mrc("data", "inspect", "sample")
    Path("experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    table = mrc("compare", "experiment.toml", "--out", "result")
    names = [row.split()[0] for row in table.splitlines() if row.startswith(("words ", "bigrams "))]
    assert names == ["words", "bigrams"], table
    assert Path("result", "report.html").is_file()
    print(table)  # noqa: T201
    print(f"mrc-workbench {version('mrc-workbench')} works from {location.strip()}")  # noqa: T201


if __name__ == "__main__":
    main()

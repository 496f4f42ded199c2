"""`mrc`: the app and the commands of all rooms under one word.

`mrc app` serves the app, `mrc compare FILE --out DIR` runs an experiment, `mrc train KIND` trains a model. Each room is
read only when one of its commands is given: `mrc --help` waits for no library.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent  # the rooms lie beside this file, in a checkout and where it is installed
sys.path.insert(0, str(ROOT))

from data.commands import carry_out, commands_of

_ROOMS = {
    "data": "look at question sets and sentence pairs, keep them, make questions of passages",
    "retrieval": "compare retrievers, and what is done with comparisons that are kept",
    "train": "train models, find settings, and what is done with trainings",
    "reading": "judge answers, and let readers answer from what retrievers find",
    "embeddings": "measure sentence encoders on sets of pairs",
    "language": "tokenizers, and texts to learn from",
    "text": "dictionaries for the analyzers",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    if not (ROOT / "pyproject.toml").exists():  # installed: what people make stays with them, where they work
        os.environ.setdefault("MRC_WORKSPACE", str(Path.cwd() / "workspace"))
    about = "Which retrieval works on your passages and questions."
    commands = commands_of("mrc", about, version=_version, version_flags=("--version",))
    commands.command(_app, name="app")
    commands.command("retrieval.__main__:compare_command", name="compare", help="run an experiment file")
    commands.command("serving.__main__:serve", name="serve", help="serve retrievers over HTTP")
    for name, about in _ROOMS.items():
        place = "training.__main__:train_commands" if name == "train" else f"{name}.__main__:commands"
        commands.command(place, name=name, help=about)
    return carry_out(commands, sys.argv[1:] if words is None else words)


def _app(*streamlit: str) -> int:
    """Serve the app and open it in the browser.

    Parameters
    ----------
    streamlit
        options of `streamlit run`, after `--`: `mrc app -- --server.port 8600`
    """
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), *streamlit])


def _version() -> str:
    try:
        return version("mrc-workbench")
    except PackageNotFoundError:  # a checkout that nobody installed
        return "not installed"


if __name__ == "__main__":
    sys.exit(main())

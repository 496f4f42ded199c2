"""`mrc`: the app and the commands of all rooms under one word.

`mrc app` serves the app, `mrc compare FILE --out DIR` runs an experiment, `mrc train KIND` trains a model. Each room is
read only when one of its commands is given: `mrc --help` waits for no library.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent  # the rooms lie beside this file, in a checkout and where it is installed
sys.path.insert(0, str(ROOT))

from mrc_workbench.data.interrupts import end_on_ctrl_c, raise_on_ctrl_c

end_on_ctrl_c()

from mrc_workbench.data.commands import carry_out, commands_of

raise_on_ctrl_c()

_ROOMS = {
    "data": "Inspect, store and write question sets and sentence pairs.",
    "retrieval": "Compare retrievers, and manage stored comparisons.",
    "train": "Train models, find settings, and manage runs.",
    "reading": "Score answers, and evaluate readers on retrieved passages.",
    "embeddings": "Measure sentence encoders on sentence pairs.",
    "language": "Compare tokenizers, and store texts to learn from.",
    "text": "Store dictionaries for the analyzers.",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    if not (ROOT / "pyproject.toml").exists():  # installed: what people make stays with them, where they work
        os.environ.setdefault("MRC_WORKSPACE", str(Path.cwd() / "workspace"))
    about = "Which retrieval works on your passages and questions."
    commands = commands_of("mrc", about, version=_version, version_flags=("--version",))
    commands.command(_app, name="app")
    commands.command(
        "retrieval.cli:compare_command", name="compare", help="Run an experiment file, and store the comparison."
    )
    commands.command("workbench.serving.cli:serve", name="serve", help="Serve retrievers over HTTP.")
    for name, about in _ROOMS.items():
        place = "training.cli:train_commands" if name == "train" else f"{name}.__main__:commands"
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
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mrc-workbench")
    except PackageNotFoundError:  # a checkout that nobody installed
        return "not installed"


if __name__ == "__main__":
    sys.exit(main())

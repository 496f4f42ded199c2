"""`mrc`, or `python -m mrc_workbench`: the app and the commands of all rooms under one word.

`mrc app` serves the app, `mrc compare FILE --out DIR` runs an experiment, `mrc train KIND` trains a model. Each room is
read only when one of its commands is given: `mrc --help` waits for no library.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from mrc_workbench.data.commands import carry_out, commands_of
from mrc_workbench.data.workspace import PROJECT

_COMMANDS = {  # a name, where its commands are defined, and what they do
    "compare": ("retrieval.cli:compare_command", "Run an experiment file, and store the comparison."),
    "serve": ("workbench.serving.cli:serve", "Serve retrievers over HTTP."),
    "data": ("data.cli:commands", "Inspect, store and write question sets and sentence pairs."),
    "retrieval": ("retrieval.cli:commands", "Compare retrievers, and manage stored comparisons."),
    "train": ("training.cli:commands", "Train models, find settings, and manage runs."),
    "reading": ("labs.reading.cli:commands", "Score answers, and evaluate readers on retrieved passages."),
    "embeddings": ("labs.embeddings.cli:commands", "Measure sentence encoders on sentence pairs."),
    "language": ("labs.language.cli:commands", "Compare tokenizers, and store texts to learn from."),
    "text": ("data.text.cli:commands", "Store dictionaries for the analyzers."),
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    if not (PROJECT / "pyproject.toml").exists():  # installed: what people make stays with them, where they work
        os.environ.setdefault("MRC_WORKSPACE", str(Path.cwd() / "workspace"))
    about = "Which retrieval works on your passages and questions."
    commands = commands_of("mrc", about, version=_version, version_flags=("--version",))
    commands.command(_app, name="app")
    for name, (module, help_line) in _COMMANDS.items():
        commands.command(f"mrc_workbench.{module}", name=name, help=help_line)
    return carry_out(commands, sys.argv[1:] if words is None else words)


def _app(*streamlit: str) -> int:
    """Serve the app and open it in the browser.

    Parameters
    ----------
    streamlit
        options of `streamlit run`, after `--`: `mrc app -- --server.port 8600`
    """
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(PROJECT / "app.py"), *streamlit])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mrc-workbench")
    except PackageNotFoundError:  # a checkout that nobody installed
        return "not installed"

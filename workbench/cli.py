"""`mrc`, or `python -m mrc_workbench`: the table of all commands, each of which is imported when it is used."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Literal, NamedTuple

from cyclopts import App, Group, Parameter

from mrc_workbench.data.commands import command_group, run_command_line
from mrc_workbench.data.problems import DataError, require_library
from mrc_workbench.data.terminal import print_line
from mrc_workbench.data.workspace import PROJECT, project_version
from mrc_workbench.labs import labs

_ABOUT = "Find out which retrieval works on your passages and questions."
_COMPARE = "Compare retrievers"
_USE = "Use retrievers"
_TRAIN = "Train models"
_DATA = "Manage data"
_LABS = "Labs"
_SHELL = "Shell"
_HEADINGS = (_COMPARE, _USE, _TRAIN, _DATA, _LABS, _SHELL)


class Entry(NamedTuple):
    """A command or a group of commands, with its heading and summary in `mrc --help`."""

    target: str  # module:attribute
    heading: str
    summary: str  # the first line of its help


COMMANDS = {
    "compare": Entry("retrieval.cli:compare_command", _COMPARE, "Run an experiment file and store the comparison."),
    "tune": Entry("retrieval.cli:tune_command", _COMPARE, "Tune a retriever of an experiment on validation data."),
    "list": Entry("retrieval.cli:list_command", _COMPARE, "List the stored comparisons, the newest first."),
    "show": Entry("retrieval.cli:show_command", _COMPARE, "Show the metrics of a stored comparison."),
    "report": Entry("retrieval.cli:report_command", _COMPARE, "Write a report with metrics, tests and TREC files."),
    "rename": Entry("retrieval.cli:rename_command", _COMPARE, "Rename a stored comparison."),
    "delete": Entry("retrieval.cli:delete_command", _COMPARE, "Delete a stored comparison."),
    "app": Entry("workbench.cli:open_app", _USE, "Open the app in the browser."),
    "serve": Entry("workbench.serving.cli:serve", _USE, "Serve retrievers over HTTP."),
    "export": Entry("retrieval.cli:export_command", _USE, "Export a retriever to a search engine or library."),
    "encode": Entry("retrieval.job:encode_command", _USE, "Encode a corpus into vectors."),
    "train": Entry("training.cli:train_commands", _TRAIN, "Train a model."),
    "sweep": Entry("training.cli:sweep_commands", _TRAIN, "Search settings of a training."),
    "ablate": Entry("training.cli:ablate", _TRAIN, "Vary one option of a language model at a time."),
    "runs": Entry("training.run_commands:commands", _TRAIN, "List, stop, resume and publish training runs."),
    "data": Entry("data.cli:commands", _DATA, "Inspect, import, export and generate datasets."),
    "pairs": Entry("data.pairs.cli:commands", _DATA, "Inspect and import sentence pairs."),
    "dictionaries": Entry("data.cli:dictionary_commands", _DATA, "Import dictionaries for the analyzers."),
    **{
        lab.name: Entry(lab.target(lab.commands) if lab.commands else f"labs:commands_{lab.name}", _LABS, lab.summary)
        for lab in labs()
    },
    "completion": Entry("workbench.cli:completion", _SHELL, "Print or install shell completion."),
}
_INTERNAL = {  # for jobs and the Makefile; a job command has the name of its folder in the workspace
    "comparisons": "retrieval.job:run_comparison",
    "takeaways": "retrieval.export.folder:run_export",
    **{lab.name: f"labs:run_{lab.name}" for lab in labs()},
    "runs": "training.run_commands:run_folder",
    "runs-worker": "training.run_commands:work",
    "dry-run": "training.run_commands:dry_run",
    "best-checkpoint": "training.run_commands:best_checkpoint",
    "sample": "retrieval.job:ship_sample",
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    words = sys.argv[1:] if words is None else words
    return run_command_line(all_commands(words), words, _error_lines)


def all_commands(words: Sequence[str] = ()) -> App:
    """Return `mrc`; the commands in `words` have their whole help instead of a summary."""
    mrc = command_group("mrc", _ABOUT, version=project_version, version_format="markdown", version_flags="--version")
    groups = {heading: Group(heading, sort_key=position) for position, heading in enumerate(_HEADINGS)}
    for flag in ("--help", "--version"):
        mrc[flag].group = groups[_SHELL]
    for position, (name, entry) in enumerate(COMMANDS.items()):
        summary = None if name in words else entry.summary
        group = groups[entry.heading]
        mrc.command(f"mrc_workbench.{entry.target}", name=name, help=summary, group=group, sort_key=position)
    internal = command_group("internal", "Commands that jobs run.", show=False)
    for name, target in _INTERNAL.items():
        internal.command(f"mrc_workbench.{target}", name=name)
    mrc.command(internal)
    return mrc


def open_app(*streamlit: str) -> int:
    """Open the app in the browser.

    Parameters
    ----------
    streamlit
        options of `streamlit run`, after `--`: `mrc app -- --server.port 8600`
    """
    require_library("streamlit", "`mrc app`")
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(PROJECT / "app.py"), *streamlit])


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="the shell that completes commands")],
    /,
    *,
    install: Annotated[bool, Parameter(negative="", help="write the script and load it at startup")] = False,
) -> int:
    """Print or install shell completion.

    `source <(mrc completion bash)` completes commands and options in this shell, `--install` in every new one.
    """
    mrc = all_commands()
    for name, entry in COMMANDS.items():
        module, _, attribute = entry.target.partition(":")
        try:
            getattr(import_module(f"mrc_workbench.{module}"), attribute)
        except ImportError:  # a missing extra
            del mrc[name]
    if install:
        print_line(f"installed in {mrc.install_completion(shell=shell)}: open a new shell to use it")
    else:
        print_line(mrc.generate_completion(shell=shell))
    return 0


def _error_lines(error: Exception) -> Sequence[str]:
    """Return the details of an error: unusable rows, possible readings, further errors."""
    if isinstance(error, DataError):
        from mrc_workbench.data.questions import rejection_lines

        return rejection_lines(error)[1:]
    return [f"  {other}" for other in getattr(error, "others", ())]

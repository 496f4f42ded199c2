"""`python -m training bi-encoder|cross-encoder --data FILE --base starter --out DIR` and the options of the form."""

import argparse
import sys
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any

from data.problems import DataError
from data.split import SplitOptions
from data.store import find
from training.options import BiEncoderOptions, CrossEncoderOptions, Kind, default_options
from training.runs import Run, State, create_run, new_plan
from training.train import train

_OPTIONS = {Kind.BI_ENCODER: BiEncoderOptions, Kind.CROSS_ENCODER: CrossEncoderOptions}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0 when done or stopped, 1 when failed, 2 when it could not start."""
    given = _parser().parse_args(arguments)
    if given.command == "run":
        return int(train(Run(given.folder)).state is State.FAILED)
    try:
        run = _planned(Kind(given.command), given)
    except (DataError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"run folder: {run.folder}", flush=True)
    ended = train(run)
    if ended.state is State.FAILED:
        print(f"error: {ended.message}", file=sys.stderr)
        return 1
    for name, figures in run.scores().items():
        if isinstance(figures, dict):
            print(f"{name:>12}  " + "  ".join(f"{measure} {value:.4f}" for measure, value in figures.items()))
    print("stopped; no model was saved" if ended.state is State.STOPPED else f"model: {run.model_folder}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m training", description="Train a bi-encoder or a cross-encoder.")
    commands = parser.add_subparsers(dest="command", required=True)
    for kind, options in _OPTIONS.items():
        formatter = argparse.ArgumentDefaultsHelpFormatter
        command = commands.add_parser(kind.value, help=f"train a {kind.value}", formatter_class=formatter)
        command.add_argument("--data", required=True, help="a file, or a name of the catalog or the workspace")
        command.add_argument("--out", type=Path, help="run folder; the model is in its folder model/")
        command.add_argument("--name", default="", help="name of the run")
        command.add_argument("--test-share", type=float, default=0.2, help="share of the articles kept for the test")
        command.add_argument("--validation-share", type=float, default=0.1, help="share of the articles to measure on")
        command.add_argument("--split-seed", type=int, default=0, help="seed of the split")
        for known in fields(options):
            _add_option(command, known, getattr(default_options(kind), known.name))
    worker = commands.add_parser("run", help="carry out a run folder (the page uses this)")
    worker.add_argument("folder", type=Path)
    return parser


def _add_option(command: argparse.ArgumentParser, known: "Field[Any]", starter_default: Any) -> None:
    # without a value the default suits the base, which is not known yet
    help_text = f"{known.metadata['help']} (starter: {starter_default}; other bases may differ)"
    flag = f"--{known.name.replace('_', '-')}"
    if isinstance(starter_default, bool):
        command.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=help_text)
    else:
        command.add_argument(flag, type=type(known.default), default=argparse.SUPPRESS, help=help_text)


def _planned(kind: Kind, given: argparse.Namespace) -> Run:
    question_set = find(given.data)
    chosen = {f.name: getattr(given, f.name) for f in fields(_OPTIONS[kind]) if hasattr(given, f.name)}
    options = replace(default_options(kind, chosen.get("base")), **chosen)
    reference = str(Path(given.data).resolve()) if Path(given.data).is_file() else given.data
    data = (reference, question_set.name, question_set.fingerprint)
    shares = SplitOptions(given.validation_share, given.test_share, given.split_seed)
    return create_run(new_plan(kind, given.name or kind.value, data, shares, options), given.out)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m language keep-text` and `texts`: the texts of the workspace."""

import argparse
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

from data.files.opening import set_name
from data.terminal import tell, tell_progress
from language.problems import LanguageError
from language.texts import StoredText, keep, stored

KEEP_HELP = "keep texts in the workspace, for pages and commands to learn from"
LIST_HELP = "list the kept texts"


def add_keep_arguments(command: argparse.ArgumentParser) -> None:
    """Let a command be told files, and keep them."""
    command.set_defaults(run=_keep)
    command.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a text in UTF-8, of any size")


def add_list_arguments(command: argparse.ArgumentParser) -> None:
    """Let a command list what is kept."""
    command.set_defaults(run=_list)
    command.add_argument("--json", action="store_true", help="print JSON")


def _keep(options: argparse.Namespace) -> int:
    for path in options.files:
        if not path.is_file():
            message = f"{path.name} is no file that can be read: check the path"
            raise LanguageError("unreadable_text", message, file=path.name)
        name = set_name(path.name, "text")
        with path.open("rb") as content:
            tell(_line(keep(content, name, source=str(path), on_progress=partial(tell_progress, name))))
    return 0


def _list(options: argparse.Namespace) -> int:
    kept = stored()
    if options.json:
        tell(json.dumps([asdict(one) for one in kept], ensure_ascii=False, indent=2))
        return 0
    for one in kept:
        tell(_line(one))
    return 0


def _line(kept: StoredText) -> str:
    return f"{kept.reference}  {kept.characters:>15,} characters  {kept.documents:>12,} documents  {kept.name}"

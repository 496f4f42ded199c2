"""`python -m text`: the dictionaries of the workspace."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from data.failure import Failure
from data.files.opening import set_name
from data.terminal import Parser, tell
from text.dictionary_file import open_dictionary
from text.kept_dictionaries import StoredDictionary, keep, stored
from text.problems import DictionaryError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, or 2 where nothing was done."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (Failure, OSError, ValueError) as error:
        others = error.others if isinstance(error, DictionaryError) else ()
        for line in (error, *others):
            tell(f"error: {line}", error=True)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m text", description="User dictionaries for the analyzers.")
    commands = parser.add_subparsers(required=True)
    text = "keep dictionaries in the workspace, for pages and experiments"
    keeping = commands.add_parser("keep-dictionary", help=text, description=text)
    keeping.set_defaults(run=_keep)
    keeping.add_argument("files", type=Path, nargs="+", metavar="FILE", help="words and synonyms, in UTF-8")
    text = "list the kept dictionaries"
    listing = commands.add_parser("dictionaries", help=text, description=text)
    listing.set_defaults(run=_list)
    listing.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _keep(options: argparse.Namespace) -> int:
    for path in options.files:
        tell(_line(keep(open_dictionary(path), set_name(path.name, "dictionary"), source=str(path))))
    return 0


def _list(options: argparse.Namespace) -> int:
    kept = stored()
    if options.json:
        tell(json.dumps([asdict(one) for one in kept], ensure_ascii=False, indent=2))
        return 0
    for one in kept:
        tell(_line(one))
    return 0


def _line(kept: StoredDictionary) -> str:
    return f"{kept.reference}  {kept.words:>9,} words  {kept.synonyms:>9,} groups of synonyms  {kept.name}"


if __name__ == "__main__":
    sys.exit(main())

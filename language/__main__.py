"""`python -m language`: texts to learn from, and tokenizers of them."""

import argparse
import sys

from data.failure import Failure
from data.terminal import Parser, tell
from language import run_command, texts_command
from language.tokenizers import command as tokenizers_command


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where something failed, 2 where nothing was done."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (Failure, OSError, ValueError) as error:
        tell(f"error: {error}", error=True)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m language", description="Tokenizers and language models.")
    commands = parser.add_subparsers(required=True)
    for name, help_text, add_arguments in (
        ("tokenizers", tokenizers_command.HELP, tokenizers_command.add_arguments),
        ("keep-text", texts_command.KEEP_HELP, texts_command.add_keep_arguments),
        ("texts", texts_command.LIST_HELP, texts_command.add_list_arguments),
        ("run", run_command.HELP, run_command.add_arguments),
    ):
        add_arguments(commands.add_parser(name, help=help_text, description=help_text))
    return parser


if __name__ == "__main__":
    sys.exit(main())

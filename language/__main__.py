"""`python -m language`: tokenizers of one's own text, and how well they cut it."""

import argparse
import sys

from data.failure import Failure
from data.terminal import tell
from language import run_command, tokenizers_command


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
    parser = argparse.ArgumentParser(prog="python -m language", description="Tokenizers and language models.")
    commands = parser.add_subparsers(required=True)
    for name, command in (("tokenizers", tokenizers_command), ("run", run_command)):
        command.add_arguments(commands.add_parser(name, help=command.HELP, description=command.HELP))
    return parser


if __name__ == "__main__":
    sys.exit(main())

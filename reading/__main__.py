"""`python -m reading`: judge files of answers, or let readers answer from what retrievers find."""

import argparse
import sys

from data.failure import Failure
from data.terminal import Parser, tell
from reading import evaluate_command, run_command, score_command


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where a reader failed, 2 where nothing could be done."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (Failure, OSError, ValueError) as error:
        tell(f"error: {error}", error=True)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m reading", description="Answers, and how right they are.")
    commands = parser.add_subparsers(required=True)
    for name, command in (("score", score_command), ("evaluate", evaluate_command), ("run", run_command)):
        command.add_arguments(commands.add_parser(name, help=command.HELP, description=command.HELP))
    return parser


if __name__ == "__main__":
    sys.exit(main())

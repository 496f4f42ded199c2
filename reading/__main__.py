"""`python -m reading`: judge files of answers, or let readers answer from what retrievers find."""

import sys
from collections.abc import Sequence

from data.commands import commands_of, run
from reading.evaluate_command import evaluate_command
from reading.run_command import run_folder
from reading.score_command import score

commands = commands_of("reading", "Answers, and how right they are.")
commands.command(score)
commands.command(evaluate_command, name="evaluate")
commands.command(run_folder, name="run", show=False)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where a reader failed, 2 where nothing could be done."""
    return run(commands, words)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m language`: texts to learn from, and tokenizers of them."""

import sys
from collections.abc import Sequence

from data.commands import commands_of, run
from language.commands import keep_text, texts, tokenizers
from language.job import run_folder

commands = commands_of("language", "Tokenizers and language models.")
for command in (tokenizers, keep_text, texts):
    commands.command(command)
commands.command(run_folder, name="run", show=False)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 where something failed, 2 where nothing was done."""
    return run(commands, words)


if __name__ == "__main__":
    sys.exit(main())

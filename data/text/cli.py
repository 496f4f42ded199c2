"""`mrc text`: the dictionaries of the workspace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, run, tell_kept
from mrc_workbench.data.formats.opening import set_name
from mrc_workbench.data.terminal import tell
from mrc_workbench.data.text.dictionary import DictionaryError, StoredDictionary, keep, open_dictionary, stored
from mrc_workbench.data.workspace import error_message

commands = commands_of("text", "User dictionaries for the analyzers.")


def main(words: Sequence[str]) -> int:
    """Run the command; returns its exit status: 0, or 2 where nothing was done."""
    return run(commands, words)


def _refused(error: Exception) -> int:
    for line in (error_message(error), *(error.others if isinstance(error, DictionaryError) else ())):
        tell(f"error: {line}", error=True)
    return 2


commands.refused = _refused


@commands.command(name="keep-dictionary")
def keep_dictionary(file: Path, /, *files: Annotated[Path, Parameter(help="more of them")]) -> int:
    """Store dictionaries in the workspace, for pages and experiments.

    Parameters
    ----------
    file
        words and synonyms, in UTF-8
    """
    for path in (file, *files):
        tell(_line(keep(open_dictionary(path), set_name(path.name, "dictionary"), source=str(path))))
    return 0


@commands.command
def dictionaries(*, as_json: AsJson = False) -> int:
    """List the stored dictionaries."""
    return tell_kept(
        stored(), _line, as_json=as_json, empty="No dictionaries yet: `mrc text keep-dictionary FILE` stores one."
    )


def _line(kept: StoredDictionary) -> str:
    return f"{kept.reference}  {kept.words:>9,} words  {kept.synonyms:>9,} groups of synonyms  {kept.name}"

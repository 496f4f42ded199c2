"""`mrc dictionaries`: import and list the dictionaries of the workspace."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, tell_kept
from mrc_workbench.data.formats.opening import set_name
from mrc_workbench.data.terminal import tell
from mrc_workbench.data.text.dictionary import StoredDictionary, keep, open_dictionary, stored

commands = commands_of("dictionaries", "Import dictionaries for the analyzers.")


@commands.command(name="import")
def import_files(
    file: Annotated[Path, Parameter(help="words and synonyms, in UTF-8")],
    /,
    *files: Annotated[Path, Parameter(help="more dictionaries")],
) -> int:
    """Import dictionaries for pages and experiments, and print their references."""
    for path in (file, *files):
        tell(_line(keep(open_dictionary(path), set_name(path.name, "dictionary"), source=str(path))))
    return 0


@commands.command(name="list")
def list_command(*, as_json: AsJson = False) -> int:
    """List the imported dictionaries, the newest first."""
    return tell_kept(
        stored(), _line, as_json=as_json, empty="No dictionaries yet: `mrc dictionaries import FILE` imports one."
    )


def _line(kept: StoredDictionary) -> str:
    return f"{kept.reference}  {kept.words:>9,} words  {kept.synonyms:>9,} groups of synonyms  {kept.name}"

"""`python -m language keep-text` and `texts`: the texts of the workspace."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from data.commands import AsJson
from data.formats.opening import set_name
from data.terminal import tell, tell_progress
from language.problems import LanguageError
from language.texts import StoredText, keep, stored


def keep_text(file: Path, /, *files: Annotated[Path, Parameter(help="more of them")]) -> int:
    """Keep texts in the workspace, for pages and commands to learn from.

    Parameters
    ----------
    file
        a text in UTF-8, of any size
    """
    for path in (file, *files):
        if not path.is_file():
            message = f"{path.name} is no file that can be read: check the path"
            raise LanguageError("unreadable_text", message, file=path.name)
        name = set_name(path.name, "text")
        with path.open("rb") as content:
            tell(_line(keep(content, name, source=str(path), on_progress=partial(tell_progress, name))))
    return 0


def texts(*, as_json: AsJson = False) -> int:
    """List the kept texts."""
    kept = stored()
    if as_json:
        tell(json.dumps([asdict(one) for one in kept], ensure_ascii=False, indent=2))
        return 0
    for one in kept:
        tell(_line(one))
    return 0


def _line(kept: StoredText) -> str:
    return f"{kept.reference}  {kept.characters:>15,} characters  {kept.documents:>12,} documents  {kept.name}"

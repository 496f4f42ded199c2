"""`mrc language`: which tokenizer cuts a text well, and the texts kept to learn from."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, run, several_of, tell_kept
from mrc_workbench.data.formats.opening import set_name
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.labs.language.comparison import Measured, Request, compare, run_folder
from mrc_workbench.labs.language.morphemes import Split, TokenizerKind
from mrc_workbench.labs.language.texts import StoredText, find_corpus, keep, require_file, stored
from mrc_workbench.labs.language.train import Sample

commands = commands_of("language", "Tokenizers and language models.")

_COLUMNS = ("tokens_per_word", "unknown_words", "whole_words", "precision", "recall", "f1", "longer_than_512")
_DATA = (
    "a text: a file (.txt), or text: and the key of a kept one; or a question set: a file, or a name of the catalog or "
    "workspace"
)


@commands.command
def tokenizers(
    *,
    data: Annotated[str, Parameter(help=_DATA)],
    vocabulary: Annotated[tuple[int, ...], Parameter(help="pieces, 1000 to 64000, one number or several: 8000")] = (),
    kind: Annotated[tuple[TokenizerKind, ...], several_of(TokenizerKind, help="one or several: all of them")] = (),
    split: Annotated[tuple[Split, ...], several_of(Split, help=f"one or several: {Split.WORDS}")] = (),
    against: Annotated[
        tuple[str, ...], Parameter(help="compare with the tokenizer of a model as well; several times")
    ] = (),
    lowercase: Annotated[bool, Parameter(negative="", help="write all in small letters")] = False,
    held_out: Annotated[float, Parameter(help="share of documents to measure on")] = 0.1,
    seed: Annotated[int, Parameter(help="which documents these are")] = 0,
    most_characters: Annotated[
        int, Parameter(help="of a larger text a part is learned from, which bounds the memory")
    ] = Sample.most_characters,
    out: Annotated[Path | None, Parameter(help="folder for the tokenizers, each in a folder of its own")] = None,
    as_json: AsJson = False,
) -> int:
    """Train tokenizers on a text, and compare how they cut what they were not trained on: shares from 0 to 1."""
    sample = Sample(lowercase=lowercase, held_out=held_out, seed=seed, most_characters=most_characters)
    asked = {"kinds": kind, "splits": split, "vocabularies": vocabulary, "against": against}
    given: dict[str, Any] = {name: tuple(dict.fromkeys(values)) for name, values in asked.items() if values}
    request = Request(sample=sample, **given)
    corpus = find_corpus(data)
    found = compare(corpus, request, out=out, on_progress=report_progress)
    end_progress_line()
    told = {
        "data": corpus.name,
        "fingerprint": corpus.fingerprint,
        "tokenizers": {one.name: one.as_dict() for one in found},
    }
    tell(json.dumps(told, ensure_ascii=False, indent=2) if as_json else _table(found))
    failed = {one.name: one.refusal.failure for one in found if one.refusal}
    for name, error in failed.items():
        tell(f"{name} failed: {error}", error=True)
    return int(bool(failed))


def _table(found: list[Measured]) -> str:
    """Return the figures as lines of text, shares in percent."""

    def cell(name: str, value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:.3f}" if name == "tokens_per_word" else f"{100 * value:.2f}"

    rows = []
    for one in found:
        figures = one.as_dict()
        rows.append((one.name, [cell(name, figures.get(name)) for name in _COLUMNS] if one.figures else ["failed"]))
    return "\n".join(aligned(_COLUMNS, rows, 15))


@commands.command
def keep_text(file: Path, /, *files: Annotated[Path, Parameter(help="more of them")]) -> int:
    """Store texts in the workspace, for pages and commands to learn from.

    Parameters
    ----------
    file
        a text in UTF-8, of any size
    """
    for path in (file, *files):
        require_file(path, path.name)
        name = set_name(path.name, "text")
        with path.open("rb") as content:
            tell(_line(keep(content, name, source=str(path), on_progress=partial(report_progress, name))))
    return 0


@commands.command
def texts(*, as_json: AsJson = False) -> int:
    """List the stored texts."""
    return tell_kept(stored(), _line, as_json=as_json, empty="No texts yet: `mrc language keep-text FILE` stores one.")


def _line(kept: StoredText) -> str:
    return f"{kept.reference}  {kept.characters:>15,} characters  {kept.documents:>12,} documents  {kept.name}"


commands.command(run_folder, name="run", show=False)


def main(words: Sequence[str]) -> int:
    """Run the command; returns its exit status: 0, 1 where something failed, 2 where nothing was done."""
    return run(commands, words)

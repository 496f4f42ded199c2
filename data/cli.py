"""`mrc data`: inspect, import, list, export and generate datasets; `mrc dictionaries`: import and list dictionaries."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import CoercionError, Parameter

from mrc_workbench.data import questions
from mrc_workbench.data.commands import AsJson, add_list_command, columns_option, command_group
from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.encodings import ENCODINGS
from mrc_workbench.data.formats.opening import derive_name
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.generate import generate
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.questions.content import content_notes
from mrc_workbench.data.questions.read import (
    QuestionSetReading,
    export_archive,
    read_files_in_subprocess,
    read_paths_in_subprocess,
)
from mrc_workbench.data.split import split
from mrc_workbench.data.store import CATALOG, StoredSet, fetch, find, record_last_used, save_question_set, stored
from mrc_workbench.data.subprocess_reader import File as SourceFile
from mrc_workbench.data.terminal import print_line, report_progress
from mrc_workbench.data.text import dictionary
from mrc_workbench.data.workspace import replacing

commands = command_group("data", "Inspect, import, export and generate datasets.")
commands.command(generate)
commands.command("mrc_workbench.data.pairs.cli:inspect", name="inspect-pairs", show=False)  # earlier name

_FILE_HELP = (
    "SQuAD JSON, JSON, JSONL, CSV, TSV, Excel, Parquet, Arrow or text; documents (Markdown, web pages, PDF, Word, "
    "PowerPoint, Hangul); the folder or a zip archive of a collection, of documents or of `save_to_disk`; "
    f"or a dataset of the catalog: {', '.join(CATALOG)}"
)
File = Annotated[Path, Parameter(help=_FILE_HELP)]
Files = Annotated[Path, Parameter(help="more files of the same collection")]
NamedColumns = Annotated[dict[str, str] | None, columns_option(QuestionColumns)]
NamedEncoding = Annotated[str, Parameter(help=f"encoding of the text, if it is not detected: {', '.join(ENCODINGS)}")]
Data = Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")]
Out = Annotated[Path, Parameter(help="zip archive to write")]
Records = Annotated[bool, Parameter(negative="", help="with --json: print every passage and question, too")]


@commands.command
def inspect(
    file: File,
    /,
    *files: Files,
    columns: NamedColumns = None,
    encoding: NamedEncoding = "",
    as_json: AsJson = False,
    records: Records = False,
) -> int:
    """Show the content of a file and its problems.

    Several files are read as one collection.
    """
    if records and not as_json:
        raise CoercionError(msg="--records needs --json")
    reading = _read_questions((file, *files), columns, encoding)
    audit = questions.audit(reading.question_set)
    parts = split(reading.question_set)
    notes = content_notes(reading.question_set, parts)
    if as_json:
        printed = questions.as_json(reading, audit, parts, notes)
        printed["dataset"] = questions.dataset_as_json(reading, audit, parts, [path.name for path in (file, *files)])
        if records:
            printed["records"] = questions.records_as_json(reading.question_set)
        print_line(json.dumps(printed, ensure_ascii=False, indent=1))
    else:
        lines = [*questions.reading_lines(reading), *questions.audit_lines(audit), *questions.split_lines(parts)]
        print_line("\n".join([*lines, *(f"  {note.message}" for note in notes)]))
    return 0


@commands.command(name="import")
def import_file(file: File, /, *files: Files, columns: NamedColumns = None, encoding: NamedEncoding = "") -> int:
    """Import a file into the workspace, and print its key.

    Several files are imported as one collection.
    """
    reading = _read_questions((file, *files), columns, encoding)
    stored_set = save_question_set(reading.question_set, source=", ".join(path.name for path in (file, *files)))
    record_last_used(stored_set.key)  # as on the Data page
    print_line("\n".join([*questions.reading_lines(reading), f"stored as {stored_set.key}"]))
    return 0


def _dataset_line(stored_set: StoredSet) -> str:
    counts = f"{stored_set.passages:>9,} passages  {stored_set.questions:>9,} questions"
    return f"{stored_set.key}  {counts}  {stored_set.name}"


_NO_DATASETS = "No datasets yet: `mrc data import FILE` imports one."
add_list_command(commands, "imported datasets", stored, _dataset_line, empty=_NO_DATASETS)


@commands.command(name="export")
def export_command(
    data: Data,
    /,
    *,
    out: Out,
    layout: Annotated[Literal["beir", "mteb"], Parameter("--format", help="layout of the files")] = "beir",
) -> int:
    """Export a dataset as BEIR or MTEB lay it out, with a card."""
    question_set = find(data)
    content = export_archive(question_set, Layout(layout))
    with replacing(out) as new:
        new.write_bytes(content)
    counts = f"{len(question_set.passages):,} passages, {len(question_set.questions):,} questions"
    print_line(f"{question_set.name}: {counts}\nwritten to {out}")
    return 0


def _read_questions(files: tuple[Path, ...], columns: NamedColumns, encoding: str) -> QuestionSetReading:
    """Read files, or the catalog's dataset of this name. Raises `DataError`."""
    entry = CATALOG.get(str(files[0])) if len(files) == 1 and not files[0].exists() else None
    if entry is None:
        return read_paths_in_subprocess(files, columns or {}, encoding, _report_reading)
    reading = read_files_in_subprocess([SourceFile(Content(fetch(entry)), entry.path.name)], columns or {})
    return replace(reading, question_set=replace(reading.question_set, name=entry.title))


def _report_reading(read: int, total: int) -> None:
    report_progress("Reading files", read / total, is_total=False)


dictionary_commands = command_group("dictionaries", "Import dictionaries for the analyzers.")


@dictionary_commands.command(name="import")
def import_dictionaries(
    file: Annotated[Path, Parameter(help="words and synonyms, in UTF-8")],
    /,
    *files: Annotated[Path, Parameter(help="more dictionaries")],
) -> int:
    """Import dictionaries for pages and experiments, and print their references."""
    for path in (file, *files):
        name = derive_name(path.name, "dictionary")
        print_line(_dictionary_line(dictionary.save(dictionary.open_dictionary(path), name, source=str(path))))
    return 0


def _dictionary_line(stored_dictionary: dictionary.StoredDictionary) -> str:
    words = f"{stored_dictionary.words:>9,} words"
    synonyms = f"{stored_dictionary.synonyms:>9,} groups of synonyms"
    return f"{stored_dictionary.reference}  {words}  {synonyms}  {stored_dictionary.name}"


_NO_DICTIONARIES = "No dictionaries yet: `mrc dictionaries import FILE` imports one."
add_list_command(
    dictionary_commands, "imported dictionaries", dictionary.stored, _dictionary_line, empty=_NO_DICTIONARIES
)

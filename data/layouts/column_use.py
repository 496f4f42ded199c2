"""Which columns of the files of a collection are used, kept as metadata, or unused."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.tables import as_text
from mrc_workbench.data.layouts.columns.cells import list_items
from mrc_workbench.data.layouts.columns.references import NameKind, PassageNames, Reference, file_key, reference_columns
from mrc_workbench.data.layouts.columns.roles import columns_in_use
from mrc_workbench.data.layouts.columns.values import holds_locations
from mrc_workbench.data.layouts.nested.trees import NestedTable
from mrc_workbench.data.layouts.sources import Role, Shape, Source, as_questions

_LONGEST_NAME = 200  # characters of a title


def with_references(source: Source, passages: PassageNames, chosen: Mapping[str, str | None]) -> Source:
    """Return a source of questions with the columns that name passages; any other source as it is.

    `chosen` are columns that the user named by role. Evidence comes before names: a column such as `article` holds no
    passages if its values are ids, file names or titles of passages in another file.
    """
    columns = source.columns
    if source.role is Role.ROWS:
        return source if {"context", "positives"} & chosen.keys() else _named_instead(source, columns, passages)
    if source.role is not Role.QUESTIONS or columns.positives or source.shape is Shape.AUTORAG:
        return source
    used = _used_columns(source)
    free = [name for name in source.names if name not in used]
    if columns.passage_id:
        free = [columns.passage_id]
    references = reference_columns(free, source.sample, passages) if free else ()
    if columns.passage_id and not references:
        references = (Reference(columns.passage_id, NameKind.ID),)  # its unknown ids are reported
    return replace(source, references=references)


def with_locations(sources: Sequence[Source]) -> list[Source]:
    """Return the sources; those of passages with the column of file names or addresses, if questions name any."""
    asking = [source for source in sources if source.role is Role.QUESTIONS or source.columns.question is not None]
    named = {value for source in asking for name in source.names for value in _locations(name, source)}
    return [source if source in asking or not named else _with_location(source, named) for source in sources]


def _with_location(source: Source, named: set[str]) -> Source:
    used = _used_columns(source)
    columns = {name: found for name in source.names if name not in used and (found := _locations(name, source))}
    best = max(columns, key=lambda name: len(named.intersection(columns[name])), default=None)
    return replace(source, location=best)


def _locations(name: str, source: Source) -> list[str]:
    if not holds_locations(name, source.sample):
        return []
    return [file_key(as_text(item)) for row in source.sample for item in list_items(row.get(name))]


def _named_instead(source: Source, columns: Columns, passages: PassageNames) -> Source:
    """The rows as questions if what seemed to be their passages only names passages of another file."""
    context = columns.context or columns.positives
    if columns.question is None or context is None or source.shape is Shape.NESTED:
        return source
    names = [item for row in source.sample for item in list_items(row.get(context))]
    if any(len(as_text(name)) > _LONGEST_NAME for name in names):
        return source
    columns_of_names = [name for name in (context, columns.negatives) if name is not None]
    references = reference_columns(columns_of_names, source.sample, passages)
    is_named = any(reference.column == context for reference in references)
    return replace(as_questions(source), references=references) if is_named else source


class ColumnReport(NamedTuple):
    """Every column and key of the input by its use."""

    used_columns: tuple[str, ...]
    metadata_columns: tuple[str, ...]
    unused_columns: tuple[str, ...]


def column_report(source: Source) -> ColumnReport:
    """Return the columns and keys of a source by use. Nested data reports its keys once all rows were read."""
    used = _used_columns(source)
    metadata = {name for name in (source.columns.kind, source.metadata) if name is not None}
    joined, skipped = tuple[str, ...](), tuple[str, ...]()
    if source.role is Role.ROWS:
        table = source.table()
        if isinstance(table, NestedTable):
            return ColumnReport(**table.keys.columns())
        joined, skipped = table.joined, table.skipped
    return ColumnReport(
        (*(name for name in source.names if name in used - metadata), *joined),
        tuple(name for name in source.names if name in metadata),
        (*(name for name in source.names if name not in used), *skipped),
    )


def joined_report(reports: Mapping[str, ColumnReport]) -> ColumnReport:
    """Join the reports of files. A column that one file uses and another does not is reported with its file."""
    used = dict.fromkeys(name for report in reports.values() for name in report.used_columns)
    metadata = _named(((file, name) for file, report in reports.items() for name in report.metadata_columns), {*used})
    unused = ((file, name) for file, report in reports.items() for name in report.unused_columns)
    return ColumnReport(tuple(used), metadata, _named(unused, {*used, *metadata}))


def _named(columns: Iterable[tuple[str, str]], taken: set[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{file}: {name}" if name in taken else name for file, name in columns))


def _used_columns(source: Source) -> set[str]:
    others = {reference.column for reference in source.references} | ({source.metadata} if source.metadata else set())
    if source.location is not None:
        others.add(source.location)
    return columns_in_use(source.columns, source.names) | others

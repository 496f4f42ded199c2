"""Which columns of the files of a collection are used, kept as metadata, or unused."""

from dataclasses import asdict, replace

from data.formats.columns import Columns
from data.layouts.references import NameKind, PassageNames, Reference, reference_columns
from data.layouts.roles import columns_in_use
from data.layouts.sources import Role, Source


def with_references(source: Source, passages: PassageNames) -> Source:
    """Return a source of questions with the columns that name passages; any other source as it is."""
    fields = source.fields
    if source.role is not Role.QUESTIONS or isinstance(fields, Columns) or fields.positive or fields.groups:
        return source
    used = _used_columns(source)
    free = [name for name in source.names if name not in used]
    if fields.judged:
        free = [fields.judged]
    references = reference_columns(free, source.sample, passages) if free else ()
    if fields.judged and not references:
        references = (Reference(fields.judged, NameKind.ID),)  # its unknown ids are reported
    return replace(source, references=references)


class ColumnUse:
    """Sums up the columns of sources. A name that one file uses and another does not is reported with its file."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}
        self._metadata: list[tuple[str, str]] = []
        self._unused: list[tuple[str, str]] = []

    def add(self, source: Source) -> None:
        used = _used_columns(source)
        metadata = {name for name in (source.fields.kind, getattr(source.fields, "metadata", None)) if name}
        for name in source.names:
            if name in metadata:
                self._metadata.append((source.name, name))
            elif name in used:
                self.used[name] = None
            else:
                self._unused.append((source.name, name))

    def metadata_names(self) -> tuple[str, ...]:
        return self._names(self._metadata, {*self.used})

    def unused_names(self) -> tuple[str, ...]:
        return self._names(self._unused, {*self.used, *self.metadata_names()})

    @staticmethod
    def _names(found: list[tuple[str, str]], taken: set[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f"{file}: {name}" if name in taken else name for file, name in found))


def _used_columns(source: Source) -> set[str]:
    references = {reference.column for reference in source.references}
    if isinstance(source.fields, Columns):
        return columns_in_use(source.fields, source.names) | references
    return {name for name in asdict(source.fields).values() if name is not None} | references

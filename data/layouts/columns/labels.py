"""Labels beside a question and its passage: relevance, unless they may be the answers to questions of yes or no."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mrc_workbench.data.formats.columns import NAMES, Columns, plain_name
from mrc_workbench.data.formats.tables import as_text, shown
from mrc_workbench.data.layouts.columns.cells import NOT_RELEVANT
from mrc_workbench.data.layouts.columns.roles import column_flag
from mrc_workbench.data.layouts.columns.values import Sample
from mrc_workbench.data.layouts.tallies import Tally
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.records import RELEVANT_GRADE


@dataclass
class Labels:
    """The labels of the rows read so far. Several passages of a question, or grades, say that they are relevance."""

    unsure_column: str = ""  # that of labels which may be answers
    _is_relevance: bool = False
    _not_relevant: Tally = field(default_factory=Tally)  # by column

    def note(self, column: str, grade: int, judged: int) -> None:
        """Note the label of a row: its grade, and how many passages of its question are judged."""
        self._is_relevance |= judged > 1 or grade > RELEVANT_GRADE
        if grade == NOT_RELEVANT:
            self._not_relevant.add(column)

    def require_relevance(self) -> None:
        """Raise `DataError` if some labels may be answers, and no row says that they are relevance."""
        if self.unsure_column and self._not_relevant.rows and not self._is_relevance:
            flags = " / ".join(column_flag(self.unsure_column, role) for role in ("label", "answers"))
            raise DataError.of(ProblemCode.UNSURE_LABEL, column=shown(self.unsure_column, 80), flags=flags)

    def problems(self) -> list[Problem]:
        return self._not_relevant.problems(ProblemCode.LABELS_AS_RELEVANCE)


def unread_labels(columns: Columns, names: Sequence[str], sample: Sample) -> list[Problem]:
    """Return the notice of a column that is named as relevance but has no grades, if rows share their questions."""
    if columns.question is None or columns.context is None or columns.label is not None:
        return []
    name = next((name for name in names if plain_name(name) in NAMES["label"]), None)
    questions = [as_text(row.get(columns.question)) for row in sample]
    if name is None or len({*questions}) == len(questions):
        return []
    return [Problem.of(ProblemCode.UNREAD_LABEL, column=shown(name, 80), value=shown(sample[0].get(name), 80))]

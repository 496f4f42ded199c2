"""How many rows and ids a problem of a whole dataset concerns, with the first of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mrc_workbench.data.formats.tables import shown
from mrc_workbench.data.problems import Problem, ProblemCode

_EXAMPLES = 3


@dataclass
class Tally:
    """How many rows have something in common, how many distinct ids they name, and the first of these."""

    rows: int = 0
    ids: dict[str, None] = field(default_factory=dict)

    def add(self, id_: str) -> None:
        self.rows += 1
        self.ids.setdefault(id_)

    def problems(self, code: ProblemCode) -> list[Problem]:
        """Return the problem that sums the rows up, none if there are no rows."""
        return [Problem.of(code, rows=self.rows, ids=len(self.ids), examples=_examples(self.ids))] if self.rows else []


def id_problems(code: ProblemCode, ids: Sequence[str]) -> tuple[Problem, ...]:
    """Return the problem that counts some ids, none if there are no ids."""
    return (Problem.of(code, ids=len(ids), examples=_examples(ids)),) if ids else ()


def _examples(ids: Iterable[str]) -> str:
    return ", ".join(shown(id_, 40) for id_ in islice(ids, _EXAMPLES))

"""A question of a comparison as the parts of its page are given it."""

from dataclasses import dataclass
from functools import cached_property

from data.records import Passage, Question
from retrieval.analysis.questions import findings_of
from retrieval.comparison.kinds.spec import Spec
from retrieval.explain.duel import Duel
from retrieval.rankings import Findings
from views.compare.scores import ComparisonView
from views.compare.why.filters import QuestionList
from views.reasons import AskedQuestion


@dataclass(frozen=True)
class QuestionCase:
    """The question at `row` of the comparison that `listed` is about."""

    question_list: QuestionList
    row: int

    @property
    def view(self) -> ComparisonView:
        """The comparison."""
        return self.question_list.view

    @property
    def question(self) -> Question:
        """The question."""
        return self.view.comparison.question_set.questions[self.row]

    @cached_property
    def relevant(self) -> tuple[int, ...]:
        """Rows of the passages that answer it."""
        return tuple(self.view.comparison.question_set.row_of_passage[id_] for id_ in self.question.relevant)

    @cached_property
    def confusers(self) -> frozenset[int]:
        """Rows of the passages from the same article that do not."""
        return self.view.opened.confusers(self.row)

    @cached_property
    def findings(self) -> dict[str, Findings]:
        """What every retriever of the comparison found, those that others wrap included."""
        return findings_of(self.view.comparison, self.row)

    @cached_property
    def asked(self) -> AskedQuestion:
        """The same for what gives reasons."""
        depths = {name: self.depth(name) for name in self.findings}
        among = self.view.comparison.question_set
        return AskedQuestion(self.view.data.key, self.question.text, self.relevant, self.findings, depths, among)

    def depth(self, name: str) -> int:
        """How deep a retriever was searched."""
        found = self.view.comparison.rankings.get(name)
        return found.indices.shape[1] if found else 0

    def passage(self, row: int) -> Passage:
        """A passage of the corpus."""
        return self.view.comparison.question_set.passages[row]

    def spec(self, name: str) -> Spec:
        """How a retriever is made; of one in Milvus, the local one that has its scores."""
        return self.view.spec(name).local

    def duel(self, name: str, against: int | None = None) -> Duel:
        """Return the two passages to set against each other in a retriever's ranking."""
        return self.asked.duel(name, against)

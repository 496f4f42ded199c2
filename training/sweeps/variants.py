"""The variants of an ablation: the file that says what varies, and what judges them."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from mrc_workbench.data.pairs.records import PairSet
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.labs.embeddings.evaluate import evaluate
from mrc_workbench.models.language.perplexity import FOLLOWED, GUESSED, PERPLEXITY
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.evaluation.significance import Pair, intervals_of, paired_tests, question_groups
from mrc_workbench.training.jobs import REFERENCE, UNTRAINED, Difference, Interval
from mrc_workbench.training.options import OptionError, TrainingOptions
from mrc_workbench.training.ranker_options import BiEncoderOptions
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import LanguageOptions

NDCG = "ndcg@10"
SPEARMAN, SPEARMAN_BEFORE = "spearman", "spearman_before"  # of the fine-tuned model, and of what it started from
MOST_VARIANTS = 40
Kind = TypeVar("Kind", bound=TrainingOptions)
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr


class AblationExperiment(BaseModel):
    """What is learned from and what is varied, one thing at a time; `untrained` adds the base as it is.

    With `questions`, a set of them, every variant is fine-tuned on its training part alike, and asked its test part;
    with `sentences`, pairs that people scored, its vectors are held against their scores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str = Field(min_length=1)
    questions: str = ""
    sentences: str = ""
    validation_share: float = 0.1
    test_share: float = 0.2
    seed: int = 0
    untrained: bool = False
    language_model: dict[str, Scalar] = {}
    fine_tuning: dict[str, Scalar] = {}
    vary: dict[str, tuple[Scalar, ...]] = {}

    @property
    def shares(self) -> SplitOptions:
        return SplitOptions(self.validation_share, self.test_share, self.seed)

    @property
    def changes(self) -> dict[int, dict[str, Scalar]]:
        """What each variant changes, by its number: the reference nothing, the untrained base is `UNTRAINED`."""
        varied = [{name: value} for name, values in self.vary.items() for value in values]
        found: dict[int, dict[str, Scalar]] = {UNTRAINED: {}} if self.untrained else {}
        return found | dict(enumerate([{}, *varied], start=REFERENCE))

    def learning(self, number: int) -> LanguageOptions:
        """Return the options of a variant's language model. Raises `ExperimentError`, which names what is wrong."""
        told, changed = self.language_model, self.changes[number]
        suited = LanguageOptions.suited_to(str(changed.get("base", told.get("base", STARTER))))
        usual = asdict(suited) | {"kept_models": 0}  # of many variants nobody looks at how each came there
        return _made(LanguageOptions, usual, {**told, **changed}, "vary" if changed else "language_model")

    def tuning(self, base: str) -> BiEncoderOptions:
        """Return the options of the fine-tuning of a model; all but `base` suit the base that all started from.

        Raises `ExperimentError`.
        """
        began = self.learning(REFERENCE).base
        # a new transformer learns as others do: what suits a starter is for a table of words
        usual = BiEncoderOptions(base=base) if began == STARTER else BiEncoderOptions.suited_to(began)
        return _made(BiEncoderOptions, asdict(usual), {**self.fine_tuning, "base": base}, "fine_tuning")

    def check(self) -> None:
        """Raise `ExperimentError` where an option of any variant cannot be, or where nothing is varied."""
        try:
            _ = self.shares
        except ValueError as error:
            raise ExperimentError(str(error)) from error
        if not 2 <= len(self.changes) <= MOST_VARIANTS:
            wanted = f"2 to {MOST_VARIANTS} variants, not {len(self.changes)}"
            raise ExperimentError(f"vary: give {wanted}: values of options in [vary], or untrained = true")
        made = [self.learning(number) for number in self.changes]
        if len({str(asdict(one)) for one in made}) < len(made) - self.untrained:
            raise ExperimentError("vary: two variants are the same: leave out values that language_model has already")
        self.tuning("a-base")


def _made(kind: type[Kind], usual: Mapping[str, Any], told: Mapping[str, Any], place: str) -> Kind:
    known = {field.name: field for field in fields(kind)}
    if unknown := [name for name in told if name not in known]:
        raise ExperimentError(f"{place}: there is no option {unknown[0]!r}; there are {', '.join(sorted(known))}")
    typed = {name: float(v) if isinstance(usual[name], float) and type(v) is int else v for name, v in told.items()}
    for name, value in typed.items():
        wanted = str if isinstance(usual[name], str) else type(usual[name])
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise ExperimentError(f"{place}.{name}: {value!r} is no {wanted.__name__}")
    try:
        return kind(**{**usual, **typed})
    except (OptionError, ValueError) as error:
        raise ExperimentError(f"{place}: {error}") from error


class Judged(NamedTuple):
    """Figures and differences to the reference by the number of the variant, and how many questions or pairs judge."""

    figures: dict[int, Interval]
    differences: dict[int, Difference]
    judges: int


def of_hidden_tokens(run: Run) -> dict[str, Interval]:
    """Perplexity, share guessed and, of pairs, share told, of a finished language model, by measure."""
    scores = run.scores()
    after, ends = scores.get("after", {}), scores.get("intervals", {}).get("after", {})
    return {
        name: Interval(after[name], *ends[name])
        for name in (PERPLEXITY, GUESSED, FOLLOWED)
        if name in after and name in ends
    }


def of_questions(question_set: QuestionSet, data: str, shares: SplitOptions, models: Mapping[int, str]) -> Judged:
    """nDCG@10 of bi-encoders over the test questions, each held against the reference's, all tested together.

    Rankings are kept as those of any comparison, which opens at once. A model that cannot search has no figure.
    Raises `ValueError` where no test question has a relevant passage.
    """
    experiment = Experiment(
        data=data,
        split=Part.TEST,
        validation_share=shares.validation,
        test_share=shares.test,
        seed=shares.seed,
        retriever=tuple(DenseSpec(name=str(number), model=model, windows=True) for number, model in models.items()),
    )
    found = compare(experiment, question_set)
    scores = {number: found.scores[str(number)] for number in models if str(number) in found.scores}
    groups = question_groups(found.question_set)
    figures = {number: Interval(one.means()[NDCG], *intervals_of(one, groups)[NDCG]) for number, one in scores.items()}
    asked = {number: one.per_question[NDCG] for number, one in scores.items()}
    others = [number for number in asked if number != REFERENCE and REFERENCE in asked]
    pairs = [Pair(str(one), str(REFERENCE), NDCG, asked[one], asked[REFERENCE]) for one in others]
    tests = zip(others, paired_tests(pairs, groups) if pairs else (), strict=True)
    apart = {number: Difference(test.difference, test.low, test.high, test.p_family) for number, test in tests}
    return Judged(figures, apart, len(found.question_set.questions))


def of_pairs(pairs: PairSet, models: Mapping[int, str]) -> Judged:
    """Spearman's correlation of cosine and people's score, each model held against the reference's.

    The pairs are those of the part that `part_to_measure` says. Raises `EmbeddingError`.
    """
    found = evaluate(pairs, list(dict.fromkeys(models.values())))
    known = {number: model for number, model in models.items() if model in found.measured}
    figures = {number: Interval(*found.measured[model].figures[SPEARMAN]) for number, model in known.items()}
    apart: dict[int, Difference] = {}
    for test in found.differences.get(SPEARMAN, []):
        for number, model in models.items():
            if number == REFERENCE or models.get(REFERENCE) not in (test.a, test.b) or model not in (test.a, test.b):
                continue
            sign = 1 if test.a == model else -1
            low, high = sorted((sign * test.low, sign * test.high))
            apart[number] = Difference(sign * test.difference, low, high, test.p_family)
    return Judged(figures, apart, len(found.rows))

"""Windows of passages for training questions, teachers' scores of passages, and validation examples.

A teacher is a cross-encoder or the untrained mix. The mix scores a question's candidates: the passages of the
question's article and those that BM25 and the bi-encoder rank first. Its score is the sum of the z-scores of BM25, late
interaction and the bi-encoder among the candidates, weighted by `MIX_WEIGHTS`. The mix uses no labels.
"""

import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from mrc_workbench.data.records import Question
from mrc_workbench.data.text.analysis import analyze
from mrc_workbench.data.text.marking import answer_spans
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import Meter, find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import Window, WindowOptions
from mrc_workbench.retrieval.combine import PairScores
from mrc_workbench.retrieval.dense import max_sim
from mrc_workbench.retrieval.lexical import TermStatistics, term_statistics
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from mrc_workbench.training.base import Columns, Examples, OnProgress, Teacher, ValidationExamples
from mrc_workbench.training.options import RankerOptions, TrainingError
from mrc_workbench.training.ranker_options import (
    DISTILLATION_OBJECTIVES,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
    LateOptions,
)
from mrc_workbench.training.recipes.training_data import TrainingData

CANDIDATES_PER_QUESTION = 48
MAX_ARTICLE_CANDIDATES = 24  # candidates from the question's article
MIX_WEIGHTS = {"bm25": 0.4, "late": 0.5, "dense": 0.1}
_SECONDS_PER_QUESTION = 0.01  # of late interaction with the candidates, on one core


@dataclass(frozen=True)
class MixTeacher:
    """Labels examples: `[passage, candidates..., scores...]`, `1 + 2 * CANDIDATES_PER_QUESTION` numbers."""

    base: str
    data: TrainingData
    examples: Examples
    windows: WindowOptions | None = None

    def labels(self, on_progress: OnProgress) -> list[list[float]]:
        texts = [question.text for question in self.data.train.questions]
        encoder = BiEncoder(find_model(self.base), self.data.texts)
        questions = encoder.encode_questions(texts)
        passages = encoder.encode_passages(self.data.texts)
        tokens = TokenEncoder(find_model(self.base), self.data.texts, windows=self.windows)
        token_passages = tokens.encode_passages(self.data.texts, self.data.title_lengths)
        token_questions = tokens.encode_questions(texts)
        candidates = np.full((len(texts), CANDIDATES_PER_QUESTION), -1, dtype=np.int64)
        scores = np.zeros(candidates.shape, dtype=np.float32)
        positives = dict(zip(self.examples.question.tolist(), self.examples.passages[:, :1].tolist(), strict=True))
        row = 0
        for block in self.data.first_stage.score_blocks(texts):
            bm25_scores = np.where(np.isfinite(block), block, 0.0)
            for bm25, dense in zip(bm25_scores, questions[row : row + len(block)] @ passages.T, strict=True):
                rows = self._candidates(positives.get(row, []), bm25, dense)
                late = max_sim(token_questions.between(row, row + 1), token_passages.select(rows))[0]
                signals = {"bm25": bm25[rows], "late": late, "dense": dense[rows]}
                candidates[row, : len(rows)] = rows
                z_scores = (weight * _z_scores(signals[name]) for name, weight in MIX_WEIGHTS.items())
                scores[row, : len(rows)] = sum(z_scores)
                row += 1
            on_progress(row / len(texts))
        return self._as_labels(candidates, scores)

    def placeholder_labels(self) -> list[list[float]]:
        candidates = np.full((len(self.data.train.questions), CANDIDATES_PER_QUESTION), -1)
        count = min(CANDIDATES_PER_QUESTION, len(self.data.texts))
        candidates[:, :count] = np.arange(count)
        return self._as_labels(candidates, np.zeros(candidates.shape))

    def estimate_seconds(self) -> float:
        return _SECONDS_PER_QUESTION * len(self.data.train.questions)  # vectors of the base are already stored

    def _as_labels(self, candidates: np.ndarray, scores: np.ndarray) -> list[list[float]]:
        questions = self.examples.question
        passages = self.examples.passages[:, :1]
        return list(np.hstack([passages, candidates[questions], scores[questions]]).astype(np.float64).tolist())

    def _candidates(self, positive: list[int], bm25: np.ndarray, dense: np.ndarray) -> np.ndarray:
        """Return a question's candidates by its scores of all passages; first those of its positive's article."""
        positive_row = np.array(positive, dtype=np.int64)
        article_rows = positive_row
        article_of_passage = self.data.article_of_passage
        if article_of_passage is not None and len(positive_row):
            same_article = np.flatnonzero(article_of_passage == article_of_passage[positive_row])
            others = same_article[same_article != positive_row][: MAX_ARTICLE_CANDIDATES - 1]
            article_rows = np.concatenate([positive_row, others])
        best = np.argsort(-(_z_scores(bm25) + _z_scores(dense)), kind="stable")[: 2 * CANDIDATES_PER_QUESTION]
        return np.concatenate([article_rows, best[~np.isin(best, article_rows)]])[:CANDIDATES_PER_QUESTION]


def _z_scores(scores: np.ndarray) -> np.ndarray:
    centred = scores - scores.mean(axis=-1, keepdims=True)
    deviation = scores.std(axis=-1, keepdims=True)
    return np.asarray(np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0))


# from a question and a passage's row to the passage's windows; none if the passage fits
PassageWindowCutter = Callable[[str, int], list[Window]]


class PassageWindows:
    """Texts of passages in training examples: the best window of a long passage; without a cutter, whole passages."""

    def __init__(self, data: TrainingData, window_cutter: PassageWindowCutter | None = None) -> None:
        self._data = data
        self._window_cutter = window_cutter
        self._window_scorer = _WindowScorer(data)
        self._long_passages: set[int] = set()

    def columns(self, columns: Columns, examples: Examples) -> Columns:
        if not self._window_cutter:
            return columns
        windowed = dict(columns)
        position = 0
        for name, values in list(columns.items())[1:]:  # the first holds the questions
            if isinstance(values[0], str):
                windowed[name] = self.texts(examples.question, examples.passages[:, position])
                position += 1
            elif isinstance(values[0], list) and isinstance(values[0][0], str):
                is_present = examples.passages != NOT_FOUND
                counts = is_present.sum(axis=1)
                texts = iter(self.texts(np.repeat(examples.question, counts), examples.passages[is_present]))
                windowed[name] = [list(islice(texts, count)) for count in counts.tolist()]
        return windowed

    def texts(self, questions: np.ndarray, rows: np.ndarray) -> list[str]:
        """Return the texts of passages for training questions; both are rows `(n,)`."""
        texts = [self._data.texts[row] for row in rows.tolist()]
        if not self._window_cutter:
            return texts
        row_questions = [self._data.train.questions[row] for row in questions.tolist()]
        window_texts: dict[int, list[str]] = {}  # by position
        for position, (question, row) in enumerate(zip(row_questions, rows.tolist(), strict=True)):
            if windows := self._window_cutter(question.text, row):
                self._long_passages.add(row)
                candidates = self._find_answer_windows(question, row, windows) or windows
                window_texts[position] = [window.text(texts[position]) for window in candidates]
        long_questions = [row_questions[position].text for position in window_texts]
        self._window_scorer.analyze_texts(long_questions, [text for texts in window_texts.values() for text in texts])
        for position, candidate_texts in window_texts.items():
            texts[position] = self._window_scorer.find_best(row_questions[position].text, candidate_texts)
        return texts

    @property
    def metadata(self) -> dict[str, Any]:
        return {"windows": {"passages": len(self._long_passages)}} if self._long_passages else {}

    def _find_answer_windows(self, question: Question, row: int, windows: Sequence[Window]) -> list[Window]:
        """Return the windows of a relevant passage that contain a whole answer."""
        passages = self._data.question_set.passages
        if passages.ids[row] not in question.relevant:
            return []
        text = self._data.texts[row]
        start = len(self._data.texts[row]) - len(passages.texts[row])
        answers = answer_spans(_normalize_nfc(text[start:]), question.answers)

        def contains_answer(window: Window) -> bool:
            first, last = (len(_normalize_nfc(text[start : max(start, character)])) for character in window[1:])
            return any(first <= answer[0] and answer[1] <= last for answer in answers)

        return [*filter(contains_answer, windows)]


def make_window_cutter(
    encoder: BiEncoder | TokenEncoder, options: WindowOptions, data: TrainingData
) -> PassageWindowCutter | None:
    """Return a cutter for an encoder; None if the encoder reads all passages whole."""
    windows = encoder.windows_of(data.texts, data.title_lengths, options)
    return (lambda _, row: windows.windows_of(row)) if len(windows) else None


def make_teacher(options: RankerOptions, examples: Examples, data: TrainingData) -> Teacher | None:
    """Return the teacher of these examples, or None."""
    match options:
        case BiEncoderOptions() if options.mix_loss_weight and examples.shared:
            return MixTeacher(options.base, data, examples, options.window_options)
        case BiEncoderOptions() | LateOptions() if options.objective in DISTILLATION_OBJECTIVES:
            return TeacherScores(options.teacher, data, examples, options.window_options, bm25=options.teacher_bm25)
        case CrossEncoderOptions() if options.objective is CrossEncoderObjective.MARGIN_MSE:
            return TeacherScores(options.teacher, data, examples, options.window_options, differences=True)
    return None


class _WindowScorer:
    """Scores windows by BM25's terms: `sum over question terms of idf * f / (f + k1)`; lengths are equal."""

    def __init__(self, data: TrainingData) -> None:
        self._data = data
        self._counts: dict[str, Counter[str]] = {}
        self._idf: dict[str, float] = {}

    def analyze_texts(self, questions: Sequence[str], windows: Sequence[str]) -> None:
        new = list(dict.fromkeys(text for text in (*questions, *windows) if text not in self._counts))
        if not new:
            return
        self._counts |= zip(new, map(Counter, analyze(self._data.first_stage.analysis, new)), strict=True)
        terms = list({term for text in questions for term in self._counts[text]} - self._idf.keys())
        statistics = self._statistics
        positions = statistics.positions_of(terms)
        document_frequencies = np.where(positions >= 0, statistics.document_frequencies[positions], 0)
        odds = (statistics.n_passages - document_frequencies + 0.5) / (document_frequencies + 0.5)
        self._idf |= zip(terms, np.log1p(odds).tolist(), strict=True)

    @cached_property
    def _statistics(self) -> TermStatistics:
        return term_statistics(self._data.first_stage.analysis, self._data.texts)

    def find_best(self, question: str, windows: Sequence[str]) -> str:
        """Return the best window; the first one of equal windows. `analyze_texts` has read all texts."""
        return max(windows, key=lambda window: self._score(question, window))

    def _score(self, question: str, window: str) -> float:
        counts = self._counts[window]
        k1 = self._data.first_stage.options.k1
        terms = self._counts[question].items()
        return sum(n * self._idf[term] * counts[term] / (counts[term] + k1) for term, n in terms if counts[term])


def _normalize_nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@dataclass(frozen=True)
class TeacherScores:
    """Labels examples with a teacher's logits of their passages, `(n_examples, 1 + n_negatives)`.

    With `differences`, a label is the positive's score minus the negative's. Scores are stored by teacher, corpus and
    training questions; only those of new pairs are computed. With `windows`, a long passage has the score of its best
    window. `bm25` is the weight of BM25's scores, scaled to the spread of the teacher's in each row.
    """

    teacher: str
    data: TrainingData
    examples: Examples
    windows: WindowOptions | None = None
    bm25: float = field(default=0.0, kw_only=True)
    differences: bool = field(default=False, kw_only=True)

    def labels(self, on_progress: OnProgress) -> list[Any]:
        columns, candidates = self._candidates()
        rows, _, pair_of_example = self._distinct
        scores = self._pairs(on_progress).score_candidates(self._questions, candidates)[rows, columns][pair_of_example]
        if weight := self.bm25:
            lexical = _z_scores(self._bm25_scores()[pair_of_example])
            scores = np.asarray((1 - weight) * scores + weight * scores.std(axis=1, keepdims=True) * lexical)
        return self._as_labels(scores)

    def placeholder_labels(self) -> list[Any]:
        return self._as_labels(np.zeros(self.examples.passages.shape, dtype=np.float32))

    def estimate_seconds(self) -> float:
        missing = self._pairs().count_missing(self._questions, self._candidates()[1])
        if not missing:
            return 0.0
        questions, passages, _ = self._distinct
        sample = np.random.default_rng(0).permutation(len(questions))[:64]
        rows = passages[sample]
        queries = [self._questions[row] for row in questions[sample]]
        pairs = list(zip(queries, [self.data.texts[row] for row in rows], strict=True))
        self._scorer.load()
        began = time.perf_counter()
        if self.windows:
            self._scorer.score_windows(pairs, self.data.title_lengths[rows].tolist(), self.windows)
        else:
            self._scorer.score(pairs)
        return (time.perf_counter() - began) / len(pairs) * missing

    @cached_property
    def _scorer(self) -> CrossEncoderScorer:
        return CrossEncoderScorer(find_model(self.teacher), self.data.texts)

    @cached_property
    def _questions(self) -> list[str]:
        return [question.text for question in self.data.train.questions]

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of the questions and passages of the distinct pairs, and the positions of each example's pairs."""
        n_passages = len(self.data.texts)
        codes = self.examples.question[:, None] * n_passages + self.examples.passages.astype(np.int64)
        distinct, pair_of_example = np.unique(codes, return_inverse=True)
        questions, passages = np.divmod(distinct, n_passages)
        return questions, passages, pair_of_example.reshape(codes.shape)

    def _pairs(self, on_progress: OnProgress | None = None) -> PairScores:
        texts = self.data.texts
        title_lengths = self.data.title_lengths
        return PairScores(self._scorer, texts, Meter(), on_progress, windows=self.windows, title_lengths=title_lengths)

    def _candidates(self) -> tuple[np.ndarray, Rankings]:
        """Return the column of each distinct pair, and all of them as rankings."""
        rows, passages, _ = self._distinct
        counts = np.bincount(rows, minlength=len(self._questions))
        columns = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        indices = np.full((len(self._questions), counts.max()), NOT_FOUND, dtype=np.int32)
        indices[rows, columns] = passages
        return columns, Rankings(indices, np.zeros(indices.shape, dtype=np.float32))

    def _bm25_scores(self) -> np.ndarray:
        """Return BM25's scores of the distinct pairs; 0 if a passage has no word of the question."""
        rows, passages, _ = self._distinct
        scores = np.zeros(len(rows), dtype=np.float32)
        first = 0
        for block in self.data.first_stage.score_blocks(self._questions):
            block_rows = slice(*np.searchsorted(rows, (first, first + len(block))))
            scores[block_rows] = block[rows[block_rows] - first, passages[block_rows]]
            first += len(block)
        return np.where(np.isfinite(scores), scores, 0.0)

    def _as_labels(self, scores: np.ndarray) -> list[Any]:
        return list((scores[:, 0] - scores[:, 1] if self.differences else scores).tolist())


def make_validation_examples(
    options: RankerOptions,
    data: TrainingData,
    make_examples: Callable[..., tuple[Columns, Examples]],
    window_cutter: PassageWindowCutter | None,
) -> ValidationExamples | None:
    """Make validation examples like training examples; see `ValidationExamples.create_if_usable`."""
    validation_data = data.held_out
    try:
        columns, examples = make_examples(options, validation_data)
    except TrainingError:  # no negatives are available
        return None
    if ValidationExamples.create_if_usable(columns, examples) is None:  # windows and labels take longer
        return None
    columns = PassageWindows(validation_data, window_cutter).columns(columns, examples)
    return ValidationExamples(columns, examples, make_teacher(options, examples, validation_data))

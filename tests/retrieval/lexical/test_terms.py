"""Terms, fields and words cut wrongly."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.text.analysis import analyze
from mrc_workbench.data.text.analyzers import Analyzer, morphemes
from mrc_workbench.data.text.dictionary import Dictionary, Word, with_words
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.retrieval.comparison.compare import Comparison, build_context, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, MilvusSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext
from mrc_workbench.retrieval.comparison.store import ComparisonJob, save_comparison
from mrc_workbench.retrieval.explain import BM25Explainer, WindowedBM25Explainer
from mrc_workbench.retrieval.lexical import terms
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, WindowedBM25, windows
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.retrieval.compared import assert_equal_rankings, hits_of

# enough of each particle that they are known as such
_PARTICLES = " ".join(
    f"{noun}{particle}" for noun in ("학교", "서울", "한글", "사람", "나라", "책") for particle in "은는이가을를의에"
)
PASSAGE = Passage("p1", f"방시혁 대표는 노래를 만들었다. {_PARTICLES}", "방시혁")
OTHER = Passage("p2", f"고속도로를 달린다. {_PARTICLES}", "도로")
DATA = Path(os.environ.get("MRC_DATA", ""))
ENGLISH = (
    Passage("p1", "The runners were running through the parks of the town.", "Sports"),
    Passage("p2", "She baked some breads. The ovens were very hot in the mornings.", "Baking"),
    Passage("p3", "There is nothing about either of them in this passage.", "Nothing"),
)
ENGLISH_SET = QuestionSet("english", ENGLISH, (Question("q", "Who runs in a park?", (), ("p1",)),))
SAMPLE = read_entry(CATALOG["sample"]).question_set
WORD = BM25Options(Analyzer.WORD)
SENTENCES = st.lists(st.sampled_from(["a b.", "b c!", "c c a?", "d", "…", "a. d d."]), max_size=5)


def test_readings_cover_analyzers_of_text_language() -> None:
    tokens_by_analyzer = terms.readings("한글을 만든 King")
    assert list(tokens_by_analyzer) == list(terms.LANGUAGE_INDEPENDENT)
    assert Analyzer.AUTO not in tokens_by_analyzer
    assert tokens_by_analyzer[Analyzer.WHITESPACE] == ["한글을", "만든", "King"]
    assert tokens_by_analyzer[Analyzer.BIGRAM] == ["한글", "글을", "만든", "ki", "in", "ng"]
    assert terms.readings("")[Analyzer.KIWI] == []
    assert terms.readings("Running", Analyzer.ENGLISH)[Analyzer.ENGLISH] == ["run"]
    assert next(iter(terms.readings("The shoes are running."))) is Analyzer.ENGLISH
    assert Analyzer.GERMAN not in terms.readings("The shoes are running.")


def test_finds_questions_without_shared_terms() -> None:
    passages = (Passage("p1", "alpha beta", "gamma"), Passage("p2", "delta", ""), Passage("p3", "epsilon", ""))
    questions = (
        Question("q1", "Beta?", (), ("p1",)),
        Question("q2", "beta?", (), ("p2",)),  # only another passage has it
        Question("q3", "zeta eta", (), ("p3",)),  # none has
        Question("q4", "gamma", (), ("p1",)),  # only in the title
        Question("q5", "epsilon zeta", (), ("p2", "p3")),  # one of two is enough
        Question("q6", "?!", (), ("p2",)),  # no term at all
    )
    question_set = QuestionSet("terms", passages, questions)
    rows = terms.find_unmatched_questions(question_set, Analyzer.WORD)
    assert (rows.without_relevant_match.tolist(), rows.without_any_match.tolist()) == ([1, 2, 5], [2, 5])
    rows = terms.find_unmatched_questions(question_set, Analyzer.WORD, title=False)
    assert (rows.without_relevant_match.tolist(), rows.without_any_match.tolist()) == ([1, 2, 3, 5], [2, 3, 5])


@pytest.mark.slow
@pytest.mark.parametrize("analyzer", [*terms.LANGUAGE_INDEPENDENT, Analyzer.ENGLISH])
@pytest.mark.parametrize("question_set", [small_set(), SAMPLE], ids=["small", "sample"])
def test_unmatched_questions_have_disjoint_token_sets(question_set: QuestionSet, analyzer: Analyzer) -> None:
    question_set = question_set.with_questions(question_set.answerable[:120])
    passages = [set(tokens) for tokens in analyze(analyzer, question_set.passages.indexed_texts(title=True))]
    questions = [set(tokens) for tokens in analyze(analyzer, [question.text for question in question_set.questions])]
    own = [
        row
        for row, question in enumerate(question_set.questions)
        if not any(questions[row] & passages[question_set.row_of_passage[id_]] for id_ in question.relevant)
    ]
    anywhere = [row for row, tokens in enumerate(questions) if not tokens & set().union(*passages)]
    unmatched_questions = terms.find_unmatched_questions(question_set, analyzer)
    assert unmatched_questions.without_relevant_match.tolist() == own
    assert unmatched_questions.without_any_match.tolist() == anywhere


def cut(text: str) -> list[str]:
    (tokens,) = morphemes([text])
    return [token for token, _ in tokens]


def question_set_of(*questions: tuple[str, str]) -> QuestionSet:
    labelled = (Question(f"q{row}", text, (), (passage,)) for row, (text, passage) in enumerate(questions))
    return QuestionSet("cut", (PASSAGE, OTHER), tuple(labelled))


def cut_words_of(question_set: QuestionSet, dictionary: Dictionary | None = None) -> dict[str, terms.CutWord]:
    return {cut_word.word: cut_word for cut_word in terms.cut_words(question_set, dictionary)}


@pytest.mark.slow
def test_reports_word_cut_in_two_ways() -> None:
    question = "방시혁은 어느 학교를 다녔는가?"
    assert cut(question)[:3] == ["방", "시", "혁"]  # what Kiwi makes of it
    assert "방시혁" in cut(PASSAGE.text)
    others = ("고속도로를 무엇이 달리나?", "p2"), ("방시혁은 언제 태어났는가?", "p1")
    words = cut_words_of(question_set_of((question, "p1"), *others))
    expected = terms.CutWord("방시혁", terms.CutEvidence.DIFFERS, ("방", "시", "혁"), ("방시혁",), (0, 2))
    assert (words["방시혁"], "고속도로" in words) == (expected, False)


@pytest.mark.slow
def test_reports_word_cut_into_pieces_without_labels() -> None:
    words = cut_words_of(question_set_of(("방시혁은 어느 학교를 다녔는가?", "p2")))
    assert words["방시혁"] == terms.CutWord("방시혁", terms.CutEvidence.PIECES, ("방", "시", "혁"), (), (0,))


@pytest.mark.slow
def test_orders_cut_words_and_skips_dictionary_words() -> None:
    condorcet = (("콩도르세는 누구인가?", "p2"), ("콩도르세의 책은?", "p2"))
    question_set = question_set_of(*condorcet, ("방시혁은 어느 학교를 다녔는가?", "p1"))
    words = terms.cut_words(question_set)
    expected = [("방시혁", terms.CutEvidence.DIFFERS, (2,)), ("콩도르세", terms.CutEvidence.UNKNOWN, (0, 1))]
    assert [(cut_word.word, cut_word.evidence, cut_word.questions) for cut_word in words] == expected
    dictionary = with_words(Dictionary(), [Word(cut_word.word) for cut_word in words])
    assert "방시혁" not in cut_words_of(question_set, dictionary)


@pytest.mark.slow
def test_reports_progress_and_skips_other_scripts_and_empty_texts() -> None:
    shares: list[float] = []
    others = ["?!", "東京タワーは高い。", "What is it?"]
    passages = (PASSAGE, *(Passage(f"o{row}", text) for row, text in enumerate(others)), Passage("x", "x"))
    labelled_questions = [("서울은?", "p1"), *((text, f"o{row}") for row, text in enumerate(others)), ("?", "x")]
    questions = tuple(Question(f"q{n}", text, (), (passage,)) for n, (text, passage) in enumerate(labelled_questions))
    assert terms.cut_words(QuestionSet("x", passages, questions), on_progress=shares.append) == []
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert terms.cut_words(QuestionSet("none", (PASSAGE,), ())) == []


def compared(question_set: QuestionSet, *specs: TermSpec) -> Comparison:
    return compare(Experiment(data="x", ks=(1, 10), retriever=specs), question_set)


def test_stemming_matches_other_word_forms() -> None:
    bm25 = BM25("bm25", ENGLISH)
    assert bm25.analysis.analyzer is Analyzer.ENGLISH
    assert bm25.search(["run", "oven bread"], 3).indices[:, 0].tolist() == [0, 1]
    words = BM25("bm25", ENGLISH, BM25Options(Analyzer.WORD))
    assert words.search(["run"], 3).indices.tolist() == [[-1, -1, -1]]


def test_detects_language_from_passages_not_windows() -> None:
    spanish = "Los visitantes pueden comprar sus entradas por internet o en la puerta de la casa."
    passages = [Passage("p1", "The museum is open. It is in the old town. " * 20), Passage("p2", spanish)]
    windowed = WindowedBM25("bm25", passages)
    assert windowed.search(["museums"], 2).indices[0, 0] == 0
    assert WindowedBM25Explainer(passages).explain("museums", 0).score > 0


def test_explanation_shows_question_words_with_stems() -> None:
    explained = BM25Explainer(ENGLISH).explain("Who runs?", 0)
    run = next(term for term in explained.terms if term.text == "runs (run)")
    assert [explained.passage.text[slice(*span)] for span in run.passage_spans] == ["running"]
    assert run.value > 0
    assert explained.score == pytest.approx(BM25("bm25", ENGLISH).search(["Who runs?"], 1).scores[0, 0], rel=1e-6)


@pytest.mark.parametrize("kind", [BM25Spec, WindowedBM25Spec])
def test_rankings_key_depends_on_analyzer_and_stop_words(kind: type[TermSpec]) -> None:
    context = RetrieverContext(ENGLISH_SET)
    analyzers = (Analyzer.AUTO, Analyzer.WORD, Analyzer.ENGLISH, Analyzer.GERMAN)
    specs = [kind(name="A", stop_words=True), *(kind(name="A", analyzer=analyzer) for analyzer in analyzers)]
    assert len({spec.make(context).key for spec in specs}) == 5


def test_stored_experiment_omits_default_stop_words() -> None:
    assert "stop_words" not in BM25Spec(name="A").model_dump(mode="json")
    assert BM25Spec(name="A", stop_words=True).model_dump(mode="json")["stop_words"] is True
    plain, without = compared(ENGLISH_SET, BM25Spec(name="A"), BM25Spec(name="B", stop_words=True)).results
    assert [len(hits_of(result.rankings)[0]) for result in (plain, without)] == [3, 1]  # type: ignore[arg-type]


def test_experiment_records_detected_analyzer() -> None:
    context = RetrieverContext(ENGLISH_SET)
    assert BM25Spec(name="A").resolved_values(context)["analyzer"] == "english"
    assert MilvusSpec(name="A").resolved_values(context)["analyzer"] == "english"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "analyzer", "least"),
    [
        ("vaswani.beir.zip", Analyzer.ENGLISH, 0.43),
        ("cranfield.beir.zip", Analyzer.ENGLISH, 0.36),
        ("xquad.ru.json", Analyzer.RUSSIAN, 0.95),
        ("jaquad_dev.json", Analyzer.JAPANESE, 0.93),
    ],
)
def test_default_bm25_on_other_languages(file: str, analyzer: Analyzer, least: float) -> None:
    if not (DATA / file).is_file():
        pytest.skip(f"needs {file} in the folder that MRC_DATA names")
    (result,) = compared(read_file(DATA / file).question_set, BM25Spec(name="BM25")).results
    assert result.scores is not None
    assert round(result.scores.means()["ndcg@10"], 4) >= least
    question_set = read_file(DATA / file).question_set
    assert BM25Options().analysis(question_set.passages.indexed_texts(title=True)).analyzer is analyzer


@pytest.mark.parametrize("earlier", ["word", "bigram"])
def test_comparison_key_depends_on_languages_version(earlier: str) -> None:
    experiment = Experiment(data="x", ks=(1, 10), retriever=(BM25Spec(name="BM25"),))
    job = ComparisonJob.of(experiment, ENGLISH_SET.fingerprint)
    save_comparison(compare(experiment, ENGLISH_SET), job.folder)
    assert ComparisonJob.of(experiment, ENGLISH_SET.fingerprint).folder == job.folder
    path = job.folder / "provenance.json"
    stored_scores = read_json(path)
    assert stored_scores.pop("languages_version")
    stored_scores["retrievers"]["BM25"]["analyzer"] = earlier
    write_json(path, stored_scores)
    assert ComparisonJob.of(experiment, ENGLISH_SET.fingerprint).folder != job.folder
    stored_scores["retrievers"]["BM25"]["analyzer"] = "kiwi+bigram"
    write_json(path, stored_scores)
    assert ComparisonJob.of(experiment, ENGLISH_SET.fingerprint).folder == job.folder


def test_windows_cover_every_run_of_sentences() -> None:
    text = "하나다. 둘인가? 셋!"
    assert windows(text, 1) == ["하나다.", "둘인가?", "셋!"]
    assert windows(text, 2) == ["하나다. 둘인가?", "둘인가? 셋!"]
    assert windows(text, 3) == windows(text, 4) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("  \n", ["  \n"]),
        ("no mark at all", ["no mark at all"]),
        ("3.5 km is no end. Dr. Kim", ["3.5 km is no end.", "Dr.", "Kim"]),
        ("“그만.” 그가 말했다(끝이다.) 그리고", ["“그만.”", "그가 말했다(끝이다.)", "그리고"]),
        ("一つ。二つ！「三つ。」四", ["一つ。", "二つ！", "「三つ。」", "四"]),
        ("제목\n본문이다\r\n끝", ["제목", "본문이다", "끝"]),
        ("wait... what?! yes", ["wait...", "what?!", "yes"]),
    ],
)
def test_sentence_ends_at_punctuation_or_line_break(text: str, expected: list[str]) -> None:
    assert windows(text, 1) == expected


def test_passage_score_is_best_window_score() -> None:
    """Three windows of 2, 2 and 4 words: the mean is 8/3, "cat" is in two of them, once and twice."""
    passages = [Passage("p1", "cat sat. dog ran."), Passage("p2", "a cat, cat slept.")]
    rankings = WindowedBM25("windowed", passages, WORD).search(["cat"], 2)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    shorter, longer = (idf * f / (f + 0.9 * (0.6 + 0.4 * length / (8 / 3))) for f, length in ((1, 2), (2, 4)))
    assert rankings.indices.tolist() == [[1, 0]]
    assert rankings.scores[0].tolist() == pytest.approx([longer, shorter], rel=1e-6)


def test_title_precedes_every_window() -> None:
    passages = [Passage("p1", "It slept. It ran.", "Cat"), Passage("p2", "It ran. It slept.", "Dog")]
    assert WindowedBM25("windowed", passages, WORD).search(["dog ran"], 1).indices.tolist() == [[1]]
    untitled = BM25Options(Analyzer.WORD, title=False)
    assert WindowedBM25("windowed", passages, untitled).search(["dog"], 1).indices.tolist() == [[-1]]


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.lists(SENTENCES, min_size=1, max_size=6), st.integers(1, 3))
def test_windowed_scores_are_maxima_of_bm25_over_windows(texts: list[list[str]], sentences: int) -> None:
    passages = [Passage(f"p{row}", " ".join(parts)) for row, parts in enumerate(texts)]
    cut = [(row, window) for row, passage in enumerate(passages) for window in windows(passage.text, sentences)]
    plain = BM25("plain", [Passage("", window) for _, window in cut], WORD).search(["a b", "c d d", "e"], len(cut))
    rankings = WindowedBM25("windowed", passages, WORD, sentences=sentences).search(["a b", "c d d", "e"], len(texts))
    for question in range(3):
        best: dict[int, float] = {}
        for window_row, score in hits_of(plain)[question].items():
            best.setdefault(cut[window_row][0], score)
        assert hits_of(rankings)[question] == best


@pytest.mark.slow
def test_whole_passage_windows_equal_bm25() -> None:
    queries = texts_of(SAMPLE.questions[::16])
    longest = WindowedBM25("windowed", SAMPLE.passages, sentences=10_000).search(queries, 20)
    plain = BM25("plain", SAMPLE.passages).search(queries, 20)
    assert_equal_rankings(longest, plain)


@pytest.mark.parametrize("texts", [[], ["..."], ["...", ""]])
def test_passages_without_tokens_are_never_returned(texts: list[str]) -> None:
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    rankings = WindowedBM25("windowed", passages, WORD).search(["a word", ""], 2)
    assert rankings.indices.tolist() == [[-1] * min(2, len(texts))] * 2
    assert rankings.scores.tolist() == [[-np.inf] * min(2, len(texts))] * 2


def test_builds_windowed_bm25_from_experiment_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    options = 'sentences = 2\nanalyzer = "bigram"\nk1 = 0.4\nb = 0.6\ntitle = false\n'
    head = 'data = "small"\n[[retriever]]\nname = "Sentences"\nkind = "bm25-windows"\n'
    path.write_text(head + options, encoding="utf-8")
    queries = texts_of(QUESTIONS)
    (retriever,) = build_context(read_experiment(path), small_set()).retrievers.values()
    assert isinstance(retriever, CachedRetriever)
    bm25_options = BM25Options(Analyzer.BIGRAM, k1=0.4, b=0.6, title=False)
    expected = WindowedBM25("Sentences", PASSAGES, bm25_options, sentences=2).search(queries, 5)
    np.testing.assert_array_equal(retriever.search(queries, 5).indices, expected.indices)
    np.testing.assert_array_equal(retriever.search(queries, 5).scores, expected.scores)
    path.write_text(path.read_text(encoding="utf-8").replace("sentences = 2", "sentences = 0"), encoding="utf-8")
    with pytest.raises(ExperimentError, match="sentences: Input should be greater than 0"):
        read_experiment(path)


def test_rejects_window_of_no_sentences() -> None:
    with pytest.raises(ValueError, match="a window must hold 1 sentence or more, not 0"):
        WindowedBM25("windowed", [], sentences=0)

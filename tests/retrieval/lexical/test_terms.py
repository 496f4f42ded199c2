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
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, materials_of
from mrc_workbench.retrieval.comparison.experiment import Experiment, ExperimentError, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, MilvusSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials
from mrc_workbench.retrieval.comparison.store import ComparisonJob, keep
from mrc_workbench.retrieval.explain import BM25Explainer, WindowedBM25Explainer
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, WindowedBM25, windows
from mrc_workbench.retrieval.lexical.terms import OF_ANY_LANGUAGE, CutWord, Evidence, cut_words, readings, unmatched
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of

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
ASKED = QuestionSet("english", ENGLISH, (Question("q", "Who runs in a park?", (), ("p1",)),))
WORD = BM25Options(Analyzer.WORD)
SENTENCES = st.lists(st.sampled_from(["a b.", "b c!", "c c a?", "d", "…", "a. d d."]), max_size=5)


def test_readings_are_those_of_every_analyzer_for_the_text() -> None:
    found = readings("한글을 만든 King")
    assert list(found) == list(OF_ANY_LANGUAGE)
    assert Analyzer.AUTO not in found
    assert found[Analyzer.WHITESPACE] == ["한글을", "만든", "King"]
    assert found[Analyzer.BIGRAM] == ["한글", "글을", "만든", "ki", "in", "ng"]
    assert readings("")[Analyzer.KIWI] == []
    assert readings("Running", Analyzer.ENGLISH)[Analyzer.ENGLISH] == ["run"]
    assert next(iter(readings("The shoes are running."))) is Analyzer.ENGLISH
    assert Analyzer.GERMAN not in readings("The shoes are running.")


def test_questions_without_a_shared_term_counted_by_hand() -> None:
    passages = (Passage("p1", "alpha beta", "gamma"), Passage("p2", "delta", ""), Passage("p3", "epsilon", ""))
    questions = (
        Question("q1", "Beta?", (), ("p1",)),
        Question("q2", "beta?", (), ("p2",)),  # only another passage has it
        Question("q3", "zeta eta", (), ("p3",)),  # none has
        Question("q4", "gamma", (), ("p1",)),  # only in the title
        Question("q5", "epsilon zeta", (), ("p2", "p3")),  # one of two is enough
        Question("q6", "?!", (), ("p2",)),  # no term at all
    )
    asked = QuestionSet("terms", passages, questions)
    rows = unmatched(asked, Analyzer.WORD)
    assert (rows.own.tolist(), rows.anywhere.tolist()) == ([1, 2, 5], [2, 5])
    rows = unmatched(asked, Analyzer.WORD, title=False)
    assert (rows.own.tolist(), rows.anywhere.tolist()) == ([1, 2, 3, 5], [2, 3, 5])


@pytest.mark.slow
@pytest.mark.parametrize("analyzer", [*OF_ANY_LANGUAGE, Analyzer.ENGLISH])
@pytest.mark.parametrize(
    "question_set", [small_set(), read_entry(CATALOG["sample"]).question_set], ids=["small", "sample"]
)
def test_they_are_those_whose_sets_of_tokens_do_not_meet(question_set: QuestionSet, analyzer: Analyzer) -> None:
    question_set = question_set.with_questions(question_set.answerable[:120])
    passages = [set(tokens) for tokens in analyze(analyzer, question_set.passages.indexed_texts(title=True))]
    questions = [set(tokens) for tokens in analyze(analyzer, [question.text for question in question_set.questions])]
    own = [
        row
        for row, question in enumerate(question_set.questions)
        if not any(questions[row] & passages[question_set.row_of_passage[id_]] for id_ in question.relevant)
    ]
    anywhere = [row for row, tokens in enumerate(questions) if not tokens & set().union(*passages)]
    found = unmatched(question_set, analyzer)
    assert (found.own.tolist(), found.anywhere.tolist()) == (own, anywhere)


def cut(text: str) -> list[str]:
    (found,) = morphemes([text])
    return [token for token, _ in found]


def of(*questions: tuple[str, str]) -> QuestionSet:
    asked = (Question(f"q{row}", text, (), (passage,)) for row, (text, passage) in enumerate(questions))
    return QuestionSet("cut", (PASSAGE, OTHER), tuple(asked))


def found(question_set: QuestionSet, dictionary: Dictionary | None = None) -> dict[str, CutWord]:
    return {one.word: one for one in cut_words(question_set, dictionary)}


@pytest.mark.slow
def test_a_word_that_is_read_in_two_ways() -> None:
    question = "방시혁은 어느 학교를 다녔는가?"
    assert cut(question)[:3] == ["방", "시", "혁"]  # what Kiwi makes of it
    assert "방시혁" in cut(PASSAGE.text)
    told = found(of((question, "p1"), ("고속도로를 무엇이 달리나?", "p2"), ("방시혁은 언제 태어났는가?", "p1")))
    assert told["방시혁"] == CutWord("방시혁", Evidence.DIFFERS, ("방", "시", "혁"), ("방시혁",), (0, 2))
    assert "고속도로" not in told


@pytest.mark.slow
def test_it_is_told_without_its_passage_by_its_pieces() -> None:
    told = found(of(("방시혁은 어느 학교를 다녔는가?", "p2")))
    assert told["방시혁"] == CutWord("방시혁", Evidence.PIECES, ("방", "시", "혁"), (), (0,))


@pytest.mark.slow
def test_an_unknown_word_and_the_order_and_what_a_dictionary_mends_is_not_proposed_again() -> None:
    asked = of(("콩도르세는 누구인가?", "p2"), ("콩도르세의 책은?", "p2"), ("방시혁은 어느 학교를 다녔는가?", "p1"))
    told = cut_words(asked)
    assert [(one.word, one.evidence, one.questions) for one in told] == [
        ("방시혁", Evidence.DIFFERS, (2,)),
        ("콩도르세", Evidence.UNKNOWN, (0, 1)),
    ]
    assert "방시혁" not in found(asked, with_words(Dictionary(), [Word(one.word) for one in told]))


@pytest.mark.slow
def test_the_work_is_told_and_other_scripts_and_empty_texts_are_passed_over() -> None:
    shares: list[float] = []
    others = ["?!", "東京タワーは高い。", "What is it?"]
    passages = (PASSAGE, *(Passage(f"o{row}", text) for row, text in enumerate(others)), Passage("x", "x"))
    asked = [("서울은?", "p1"), *((text, f"o{row}") for row, text in enumerate(others)), ("?", "x")]
    questions = tuple(Question(f"q{row}", text, (), (passage,)) for row, (text, passage) in enumerate(asked))
    assert cut_words(QuestionSet("x", passages, questions), on_progress=shares.append) == []
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert cut_words(QuestionSet("none", (PASSAGE,), ())) == []


def compared(question_set: QuestionSet, *specs: TermSpec) -> Comparison:
    return compare(Experiment(data="x", ks=(1, 10), retriever=specs), question_set)


def test_a_stem_finds_other_forms_of_its_word() -> None:
    bm25 = BM25("bm25", ENGLISH)
    assert bm25.analysis.analyzer is Analyzer.ENGLISH
    assert bm25.search(["run", "oven bread"], 3).indices[:, 0].tolist() == [0, 1]
    words = BM25("bm25", ENGLISH, BM25Options(Analyzer.WORD))
    assert words.search(["run"], 3).indices.tolist() == [[-1, -1, -1]]


def test_the_language_is_that_of_the_passages_and_not_of_their_windows() -> None:
    spanish = "Los visitantes pueden comprar sus entradas por internet o en la puerta de la casa."
    passages = [Passage("p1", "The museum is open. It is in the old town. " * 20), Passage("p2", spanish)]
    windowed = WindowedBM25("bm25", passages)
    assert windowed.search(["museums"], 2).indices[0, 0] == 0
    assert WindowedBM25Explainer(passages).explain("museums", 0).score > 0


def test_explained_are_the_words_of_the_question_with_their_stems() -> None:
    explained = BM25Explainer(ENGLISH).explain("Who runs?", 0)
    run = next(term for term in explained.terms if term.text == "runs (run)")
    assert [explained.passage.text[slice(*span)] for span in run.passage_spans] == ["running"]
    assert run.value > 0
    assert explained.score == pytest.approx(BM25("bm25", ENGLISH).search(["Who runs?"], 1).scores[0, 0], rel=1e-6)


@pytest.mark.parametrize("kind", [BM25Spec, WindowedBM25Spec])
def test_stored_rankings_of_words_are_not_read_for_stems(kind: type[TermSpec]) -> None:
    materials = Materials(ASKED)
    keys = {
        kind(name="A", analyzer=analyzer, stop_words=stop_words).make(materials).key
        for analyzer, stop_words in [
            *((one, False) for one in (Analyzer.AUTO, Analyzer.WORD, Analyzer.ENGLISH, Analyzer.GERMAN)),
            (Analyzer.AUTO, True),
        ]
    }
    assert len(keys) == 5


def test_stop_words_are_an_option_that_a_stored_experiment_leaves_out_by_default() -> None:
    assert "stop_words" not in BM25Spec(name="A").model_dump(mode="json")
    assert BM25Spec(name="A", stop_words=True).model_dump(mode="json")["stop_words"] is True
    plain, without = compared(ASKED, BM25Spec(name="A"), BM25Spec(name="B", stop_words=True)).results
    assert plain.rankings is not None
    assert without.rankings is not None
    assert [int((one.rankings.indices >= 0).sum()) for one in (plain, without)] == [3, 1]


def test_an_experiment_tells_the_analyzer_that_was_detected() -> None:
    materials = Materials(ASKED)
    assert BM25Spec(name="A").resolved(materials)["analyzer"] == "english"
    assert MilvusSpec(name="A").resolved(materials)["analyzer"] == "english"


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
def test_bm25_by_default_on_sets_of_other_languages(file: str, analyzer: Analyzer, least: float) -> None:
    if not (DATA / file).is_file():
        pytest.skip(f"needs {file} in the folder that MRC_DATA names")
    (result,) = compared(read_file(DATA / file).question_set, BM25Spec(name="BM25")).results
    assert result.scores is not None
    assert round(result.scores.means()["ndcg@10"], 4) >= least
    question_set = read_file(DATA / file).question_set
    assert BM25Options().analysis(question_set.passages.indexed_texts(title=True)).analyzer is analyzer


@pytest.mark.parametrize("earlier", ["word", "bigram"])
def test_a_comparison_without_languages_is_not_taken_for_one_with_them(earlier: str) -> None:
    experiment = Experiment(data="x", ks=(1, 10), retriever=(BM25Spec(name="BM25"),))
    job = ComparisonJob.of(experiment, ASKED.fingerprint)
    keep(compare(experiment, ASKED), job.folder)
    assert ComparisonJob.of(experiment, ASKED.fingerprint).folder == job.folder
    path = job.folder / "provenance.json"
    made = read_json(path)
    assert made.pop("languages_version")
    made["retrievers"]["BM25"]["analyzer"] = earlier
    write_json(path, made)
    assert ComparisonJob.of(experiment, ASKED.fingerprint).folder != job.folder
    made["retrievers"]["BM25"]["analyzer"] = "kiwi+bigram"
    write_json(path, made)
    assert ComparisonJob.of(experiment, ASKED.fingerprint).folder == job.folder


def test_every_run_of_sentences_is_a_window() -> None:
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
def test_a_sentence_ends_with_its_mark_or_its_line(text: str, expected: list[str]) -> None:
    assert windows(text, 1) == expected


def test_a_passage_scores_as_its_best_window() -> None:
    """Three windows of 2, 2 and 4 words: the mean is 8/3, "cat" is in two of them, once and twice."""
    passages = [Passage("p1", "cat sat. dog ran."), Passage("p2", "a cat, cat slept.")]
    rankings = WindowedBM25("windowed", passages, WORD).search(["cat"], 2)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    one, two = (idf * f / (f + 0.9 * (0.6 + 0.4 * length / (8 / 3))) for f, length in ((1, 2), (2, 4)))
    assert rankings.indices.tolist() == [[1, 0]]
    assert rankings.scores[0].tolist() == pytest.approx([two, one], rel=1e-6)


def test_words_of_two_sentences_meet_only_in_a_window_of_two() -> None:
    passages = [Passage("p1", "cat sat. dog ran."), Passage("p2", "dog cat. ox ran."), Passage("p3", "ox slept.")]
    apart = WindowedBM25("windowed", passages, WORD).search(["cat dog"], 3)
    assert apart.indices.tolist() == [[1, 0, -1]]
    together = WindowedBM25("windowed", passages, WORD, sentences=2).search(["cat dog"], 3)
    assert together.scores[0, 0] == together.scores[0, 1]


def test_the_title_stands_before_every_window() -> None:
    passages = [Passage("p1", "It slept. It ran.", "Cat"), Passage("p2", "It ran. It slept.", "Dog")]
    assert WindowedBM25("windowed", passages, WORD).search(["dog ran"], 1).indices.tolist() == [[1]]
    untitled = BM25Options(Analyzer.WORD, title=False)
    assert WindowedBM25("windowed", passages, untitled).search(["dog"], 1).indices.tolist() == [[-1]]


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.lists(SENTENCES, min_size=1, max_size=6), st.integers(1, 3))
def test_scores_are_the_best_of_a_plain_bm25_over_the_windows(drawn: list[list[str]], sentences: int) -> None:
    passages = [Passage(f"p{row}", " ".join(parts)) for row, parts in enumerate(drawn)]
    cut = [(row, window) for row, passage in enumerate(passages) for window in windows(passage.text, sentences)]
    plain = BM25("plain", [Passage("", window) for _, window in cut], WORD).search(["a b", "c d d", "e"], len(cut))
    rankings = WindowedBM25("windowed", passages, WORD, sentences=sentences).search(["a b", "c d d", "e"], len(drawn))
    for question in range(3):
        best: dict[int, float] = {}
        for place, score in zip(plain.indices[question].tolist(), plain.scores[question].tolist(), strict=True):
            if place >= 0:
                best.setdefault(cut[place][0], score)
        found = zip(rankings.indices[question].tolist(), rankings.scores[question].tolist(), strict=True)
        assert {row: score for row, score in found if row >= 0} == best


@pytest.mark.slow
def test_windows_as_long_as_the_passages_are_plain_bm25() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    asked = texts_of(sample.questions[::16])
    longest = WindowedBM25("windowed", sample.passages, sentences=10_000).search(asked, 20)
    plain = BM25("plain", sample.passages).search(asked, 20)
    np.testing.assert_array_equal(longest.indices, plain.indices)
    np.testing.assert_array_equal(longest.scores, plain.scores)


@pytest.mark.parametrize("texts", [[], ["..."], ["...", ""]])
def test_passages_without_a_word_are_never_found(texts: list[str]) -> None:
    passages = [Passage(f"p{row}", text) for row, text in enumerate(texts)]
    rankings = WindowedBM25("windowed", passages, WORD).search(["a word", ""], 2)
    assert rankings.indices.tolist() == [[-1] * min(2, len(texts))] * 2
    assert rankings.scores.tolist() == [[-np.inf] * min(2, len(texts))] * 2


def test_an_experiment_file_names_it(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        """data = "small"
[[retriever]]
name = "Sentences"
kind = "bm25-windows"
sentences = 2
analyzer = "bigram"
k1 = 0.4
b = 0.6
title = false
""",
        encoding="utf-8",
    )
    asked = texts_of(QUESTIONS)
    (made,) = materials_of(read_experiment(path), small_set()).made.values()
    assert isinstance(made, CachedRetriever)
    options = BM25Options(Analyzer.BIGRAM, k1=0.4, b=0.6, title=False)
    expected = WindowedBM25("Sentences", PASSAGES, options, sentences=2).search(asked, 5)
    np.testing.assert_array_equal(made.search(asked, 5).indices, expected.indices)
    np.testing.assert_array_equal(made.search(asked, 5).scores, expected.scores)
    path.write_text(path.read_text(encoding="utf-8").replace("sentences = 2", "sentences = 0"), encoding="utf-8")
    with pytest.raises(ExperimentError, match="sentences: Input should be greater than 0"):
        read_experiment(path)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a window must hold 1 sentence or more, not 0"):
        WindowedBM25("windowed", [], sentences=0)

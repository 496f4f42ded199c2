"""Made questions: each is of its passage, the same call makes the same, and what is to be hidden can be."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.generate import MakerOptions, QuestionsError, make_questions, sentences_of
from mrc_workbench.data.records import Maker, Passage, QuestionSet, as_trained
from mrc_workbench.data.store import find, stored
from mrc_workbench.workbench.cli import main
from tests.chat_server import KEY, MODEL, Reply, chat_server

WORDS = ("서울은", "한강이", "산이", "많다", "the", "river", "flows", "바다로", "17", "빠르게", "흐른다")
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(lambda words: f"{' '.join(words)}.")
texts = st.lists(sentences, min_size=1, max_size=6).map(" ".join)
titles = st.sampled_from(("", "강", "산", " 바다 "))
corpora = st.lists(st.tuples(texts, titles), min_size=1, max_size=8, unique_by=lambda one: one[0]).map(
    lambda found: QuestionSet("set", [Passage(f"p{n}", *one) for n, one in enumerate(found)], ())
)
options_of_sentences = st.builds(
    MakerOptions,
    by=st.just(Maker.SENTENCE),
    most=st.integers(0, 8),
    per_passage=st.integers(1, 4),
    taken_out=st.sampled_from((0.0, 0.5, 1.0)),
    shortest=st.integers(2, 25),
    seed=st.integers(0, 3),
)


def made(question_set: QuestionSet, options: MakerOptions) -> QuestionSet | None:
    try:
        return make_questions(question_set, options).question_set
    except QuestionsError as error:
        if error.code in ("no_titles", "no_sentences"):
            return None
        raise


@pytest.mark.slow
@given(corpora, options_of_sentences)
@settings(max_examples=30, deadline=None)
def test_a_sentence_asks_for_the_passage_it_stands_in(corpus: QuestionSet, options: MakerOptions) -> None:
    found = made(corpus, options)
    assert made(corpus, options) == found
    if found is None:
        return
    trained = as_trained(found)
    of_passage: dict[str, int] = {}
    for question in found.questions:
        (id_,) = question.relevant
        row = found.row_of_passage[id_]
        of_passage[id_] = of_passage.get(id_, 0) + 1
        holding = [passage.id for passage in corpus.passages if question.text in sentences_of(passage.text)]
        assert id_ in holding
        assert holding == [id_] or options.most  # of a sample, passages that were not drawn are not looked at
        assert options.shortest <= len(question.text) <= options.longest
        assert question.made == "sentence"
        if question.hidden:
            assert question.text not in trained.passages.texts[row]
        assert len(trained.passages.texts[row]) >= options.shortest
        assert question.hidden == {0.0: False, 1.0: True}.get(options.taken_out, question.hidden)
    assert max(of_passage.values()) <= options.per_passage
    assert len(of_passage) <= (options.most or len(corpus.passages))


@given(corpora, st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_a_title_asks_for_all_passages_of_its_article(corpus: QuestionSet, most: int) -> None:
    found = made(corpus, MakerOptions(by=Maker.TITLE, most=most))
    known = {passage.title.strip() for passage in corpus.passages} - {""}
    assert (found is None) == (not known)
    if found is None:
        return
    assert len(found.questions) == min(len(known), most or len(known))
    for question in found.questions:
        assert question.relevant == tuple(p.id for p in corpus.passages if p.title.strip() == question.text)
        assert (question.made, question.hidden) == ("title", True)
    assert set(as_trained(found).passages.titles) == {""}


@given(corpora, options_of_sentences)
@settings(max_examples=15, deadline=None)
def test_what_is_drawn_of_a_passage_does_not_depend_on_the_others(corpus: QuestionSet, options: MakerOptions) -> None:
    found = made(corpus, options)
    for question in found.questions if found else ():
        (id_,) = question.relevant
        alone = QuestionSet("one", [corpus.passages[corpus.row_of_passage[id_]]], ())
        of_one = made(alone, options)
        assert of_one
        assert (question.text, question.hidden) in [(one.text, one.hidden) for one in of_one.questions]


def numbered(count: int) -> QuestionSet:
    text = "{n} 번째 지문의 첫 문장은 이렇다. {n} 번째 지문의 다음 문장은 저렇다."
    return QuestionSet("set", [Passage(f"p{n}", text.format(n=n)) for n in range(count)], ())


def test_a_preview_shows_what_will_be_made() -> None:
    corpus = numbered(30)
    few, all_ = (made(corpus, MakerOptions(by=Maker.SENTENCE, most=most, shortest=5)) for most in (5, 20))
    assert few
    assert all_
    assert len(few.questions) == 5
    assert {question.text for question in few.questions} <= {question.text for question in all_.questions}


def test_the_share_taken_out_is_that_of_the_options() -> None:
    found = made(numbered(400), MakerOptions(by=Maker.SENTENCE, shortest=5))
    assert found
    hidden = sum(question.hidden for question in found.questions)
    assert len(found.questions) == 400
    assert 340 <= hidden <= 380  # 360 expected; four standard deviations are 24


def test_tables_and_dates_ask_nothing() -> None:
    text = "1999. 10. 3. 12,345 67,890 2001 2002. 짧다. 이 문장만이 물어볼 만한 문장이다. 이 문장도 물어볼 만하지 않나."
    found = made(QuestionSet("set", [Passage("p", text)], ()), MakerOptions(per_passage=9, shortest=10))
    assert found
    assert sorted(question.text for question in found.questions) == [
        "이 문장도 물어볼 만하지 않나.",
        "이 문장만이 물어볼 만한 문장이다.",
    ]


def test_letters_that_are_not_composed_are_asked_with_as_they_stand() -> None:
    text = unicodedata.normalize("NFD", "첫 문장은 이렇게 생겼다. 다음 문장은 저렇게 생겼다.")
    latin = "Cafe\u0301 au lait is served here. Plain water is served there."
    corpus = QuestionSet("set", [Passage("a", text), Passage("b", latin)], ())
    found = made(corpus, MakerOptions(shortest=5, per_passage=2))
    for question in found.questions if found else ():
        assert question.text in corpus.passages[corpus.row_of_passage[question.relevant[0]]].text


def test_what_cannot_be_made_is_told() -> None:
    corpus = QuestionSet("set", [Passage("a", "짧다.")], ())
    with pytest.raises(QuestionsError, match="no passage has a title"):
        make_questions(corpus, MakerOptions(by=Maker.TITLE))
    with pytest.raises(QuestionsError, match="no passage has a sentence to spare"):
        make_questions(corpus, MakerOptions(by=Maker.SENTENCE))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"per_passage": 0}, "range"),
        ({"taken_out": 1.5}, "range"),
        ({"taken_out": float("nan")}, "range"),
        ({"shortest": 50, "longest": 40}, "range"),
        ({"by": Maker.MODEL}, "no_model"),
    ],
)
def test_options_out_of_range(wrong: dict[str, object], code: str) -> None:
    with pytest.raises(QuestionsError) as caught:
        MakerOptions(**wrong)
    assert caught.value.code == code


TEXT = "\n".join(
    f"{city},{city}은 사람들이 많이 사는 큰 도시이다. {city}에는 오래된 시장과 넓은 공원이 있다."
    for city in ("서울", "부산", "대구")
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "도시.csv"
    path.write_text(f"제목,본문\n{TEXT}\n", encoding="utf-8")
    return str(path)


def test_sentences_become_a_set_of_their_own(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "sentence", "--shortest", "10", "--seed", "3"]) == 0
    told = capsys.readouterr().out
    assert "3 questions of 3 passages: 도시 · sentence" in told
    assert "They are made, not asked" in told
    (kept,) = stored()
    assert (kept.name, kept.source, kept.questions, kept.made) == ("도시 · sentence", "도시", 3, 3)
    assert f"stored as {kept.key}" in told
    assert find(kept.key).made == {"sentence": 3}


def test_a_preview_keeps_nothing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "title", "--preview", "--most", "2"]) == 0
    assert "2 questions of 2 passages" in capsys.readouterr().out
    assert stored() == []


def test_a_language_model_of_the_environment(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("질문 {n}개", encoding="utf-8")
    with chat_server(lambda text: "음…" if "대구" in text else json.dumps([f"{text[4:6]}은 어디인가?"])) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        words = ["data", "generate", file, "--by", "model", "--model", MODEL, "--prompt", str(prompt)]
        assert main(words) == 0
        assert server.asked[0]["messages"][0]["content"] == "질문 1개"
        told = capsys.readouterr().out
        assert "2 questions of 2 passages" in told
        assert "서울은 어디인가?" in told
        assert "Passages of which no question came: 1\n  p3: unusable: 음…" in told
        server.reply = lambda _: Reply(404, {})
        assert main(words) == 2
        assert capsys.readouterr().err.startswith("error: the endpoint knows no model")
        assert main([*words, "--no-calls", "--name", "둘"]) == 0
        assert "Passages not asked about yet: 1" in capsys.readouterr().out
    assert [kept.name for kept in stored()] == ["둘"]  # the same content, under its newest name


def test_the_command_says_what_cannot_be_made(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "sentence", "--shortest", "900", "--longest", "900"]) == 2
    assert capsys.readouterr().err.startswith("error: no passage has a sentence to spare")
    assert main(["data", "generate", "nowhere", "--by", "title"]) == 2
    assert main(["data", "generate", file, "--by", "model"]) == 2
    assert "name the language model" in capsys.readouterr().err
    assert main(["data", "generate", file]) == 2
    assert main(["data", "inspect", file]) == 0
    assert "No questions: these passages can be searched" in capsys.readouterr().out


def test_stopped_by_a_person(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*words: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mrc_workbench.data.generate.make_questions", stop)
    assert main(["data", "generate", file, "--by", "title"]) == 130
    assert "run the same command again to continue" in capsys.readouterr().err

"""Synthetic questions: they belong to their passage, are reproducible, and can be hidden from it."""

import json
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.generate import GenerationOptions, QuestionsError, generate_questions, split_sentences
from mrc_workbench.data.records import Passage, QuestionGenerator, QuestionSet, strip_hidden_text
from mrc_workbench.data.store import find, stored
from mrc_workbench.workbench.cli import main
from tests.chat_server import KEY, MODEL, Reply, chat_server
from tests.doubles import raises_failure

WORDS = ("서울은", "한강이", "산이", "많다", "the", "river", "flows", "바다로", "17", "빠르게", "흐른다")
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(lambda words: f"{' '.join(words)}.")
texts = st.lists(sentences, min_size=1, max_size=6).map(" ".join)
titles = st.sampled_from(("", "강", "산", " 바다 "))
corpora = st.lists(
    st.tuples(texts, titles), min_size=1, max_size=8, unique_by=lambda corpus_entry: corpus_entry[0]
).map(
    lambda corpus_entries: QuestionSet(
        "set", [Passage(f"p{n}", *corpus_entry) for n, corpus_entry in enumerate(corpus_entries)], ()
    )
)
options_of_sentences = st.builds(
    GenerationOptions,
    by=st.just(QuestionGenerator.SENTENCE),
    limit=st.integers(0, 8),
    per_passage=st.integers(1, 4),
    removal_fraction=st.sampled_from((0.0, 0.5, 1.0)),
    min_length=st.integers(2, 25),
    seed=st.integers(0, 3),
)


def generate(question_set: QuestionSet, options: GenerationOptions) -> QuestionSet | None:
    try:
        return generate_questions(question_set, options).question_set
    except QuestionsError as error:
        if str(error).startswith(("no passage has a title", "no passage has a sentence to spare")):
            return None
        raise


@pytest.mark.slow
@given(corpora, options_of_sentences)
@settings(max_examples=30, deadline=None)
def test_sentence_questions_belong_to_their_passage(corpus: QuestionSet, options: GenerationOptions) -> None:
    generated = generate(corpus, options)
    assert generate(corpus, options) == generated
    if generated is None:
        return
    trained = strip_hidden_text(generated)
    of_passage: dict[str, int] = {}
    for question in generated.questions:
        (id_,) = question.relevant
        row = generated.row_of_passage[id_]
        of_passage[id_] = of_passage.get(id_, 0) + 1
        holding = [passage.id for passage in corpus.passages if question.text in split_sentences(passage.text)]
        assert id_ in holding
        assert holding == [id_] or options.limit  # passages outside of the sample are not compared
        assert options.min_length <= len(question.text) <= options.max_length
        assert question.generator == "sentence"
        if question.hidden:
            assert question.text not in trained.passages.texts[row]
        assert len(trained.passages.texts[row]) >= options.min_length
        assert question.hidden == {0.0: False, 1.0: True}.get(options.removal_fraction, question.hidden)
    assert max(of_passage.values()) <= options.per_passage
    assert len(of_passage) <= (options.limit or len(corpus.passages))


@given(corpora, st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_title_questions_belong_to_all_article_passages(corpus: QuestionSet, most: int) -> None:
    generated = generate(corpus, GenerationOptions(by=QuestionGenerator.TITLE, limit=most))
    known = {passage.title.strip() for passage in corpus.passages} - {""}
    assert (generated is None) == (not known)
    if generated is None:
        return
    assert len(generated.questions) == min(len(known), most or len(known))
    for question in generated.questions:
        assert question.relevant == tuple(p.id for p in corpus.passages if p.title.strip() == question.text)
        assert (question.generator, question.hidden) == ("title", True)
    assert set(strip_hidden_text(generated).passages.titles) == {""}


@given(corpora, options_of_sentences)
@settings(max_examples=15, deadline=None)
def test_sampling_of_a_passage_is_independent_of_others(corpus: QuestionSet, options: GenerationOptions) -> None:
    generated = generate(corpus, options)
    for question in generated.questions if generated else ():
        (id_,) = question.relevant
        alone = QuestionSet("one", [corpus.passages[corpus.row_of_passage[id_]]], ())
        separate = generate(alone, options)
        assert separate
        assert (question.text, question.hidden) in [(e.text, e.hidden) for e in separate.questions]


def numbered(count: int) -> QuestionSet:
    text = "{n} 번째 지문의 첫 문장은 이렇다. {n} 번째 지문의 다음 문장은 저렇다."
    return QuestionSet("set", [Passage(f"p{n}", text.format(n=n)) for n in range(count)], ())


def test_preview_is_a_subset_of_the_full_set() -> None:
    corpus = numbered(30)
    few, all_ = (
        generate(corpus, GenerationOptions(by=QuestionGenerator.SENTENCE, limit=n, min_length=5)) for n in (5, 20)
    )
    assert few
    assert all_
    assert len(few.questions) == 5
    assert {question.text for question in few.questions} <= {question.text for question in all_.questions}


def test_removes_the_configured_fraction_of_sentences() -> None:
    generated = generate(numbered(400), GenerationOptions(by=QuestionGenerator.SENTENCE, min_length=5))
    assert generated
    hidden = sum(question.hidden for question in generated.questions)
    assert len(generated.questions) == 400
    assert 340 <= hidden <= 380  # 360 expected; four standard deviations are 24


def test_skips_tables_and_dates() -> None:
    text = "1999. 10. 3. 12,345 67,890 2001 2002. 짧다. 이 문장만이 물어볼 만한 문장이다. 이 문장도 물어볼 만하지 않나."
    generated = generate(QuestionSet("set", [Passage("p", text)], ()), GenerationOptions(per_passage=9, min_length=10))
    assert generated
    expected = ["이 문장도 물어볼 만하지 않나.", "이 문장만이 물어볼 만한 문장이다."]
    assert sorted(q.text for q in generated.questions) == expected


def test_keeps_decomposed_characters() -> None:
    text = unicodedata.normalize("NFD", "첫 문장은 이렇게 생겼다. 다음 문장은 저렇게 생겼다.")
    latin = "Cafe\u0301 au lait is served here. Plain water is served there."
    corpus = QuestionSet("set", [Passage("a", text), Passage("b", latin)], ())
    generated = generate(corpus, GenerationOptions(min_length=5, per_passage=2))
    for question in generated.questions if generated else ():
        assert question.text in corpus.passages[corpus.row_of_passage[question.relevant[0]]].text


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"per_passage": 0}, "range"),
        ({"removal_fraction": 1.5}, "range"),
        ({"removal_fraction": float("nan")}, "range"),
        ({"min_length": 50, "max_length": 40}, "range"),
        ({"by": QuestionGenerator.MODEL}, "no_model"),
    ],
)
def test_rejects_options_out_of_range(wrong: dict[str, object], code: str) -> None:
    with raises_failure(code):
        GenerationOptions(**wrong)


TEXT = "\n".join(
    f"{c},{c}은 사람들이 많이 사는 큰 도시이다. {c}에는 오래된 시장과 넓은 공원이 있다."
    for c in ("서울", "부산", "대구")
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "도시.csv"
    path.write_text(f"제목,본문\n{TEXT}\n", encoding="utf-8")
    return str(path)


def test_stores_generated_questions_as_new_set(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "sentence", "--min-length", "10", "--seed", "3"]) == 0
    output = capsys.readouterr().out
    assert "3 questions of 3 passages: 도시 · sentence" in output
    assert "These questions are synthetic" in output
    (entry,) = stored()
    assert (entry.name, entry.source, entry.questions, entry.generated) == ("도시 · sentence", "도시", 3, 3)
    assert f"stored as {entry.key}" in output
    assert find(entry.key).generated_counts == {"sentence": 3}


def test_accepts_old_options(file: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    earlier = ["--most", "2", "--shortest", "10", "--longest", "90", "--taken-out", "1"]
    assert main(["data", "generate", file, "--by", "sentence", "--preview", *earlier]) == 0
    assert "2 questions of 2 passages" in capsys.readouterr().out
    for option in ("limit", "min_length", "max_length", "removal_fraction"):
        assert f"is now {option!r}" in caplog.text
    with suppress(SystemExit):
        main(["data", "generate", "--help"])
    assert "--taken-out" not in capsys.readouterr().out


def test_preview_stores_nothing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "title", "--preview", "--limit", "2"]) == 0
    assert "2 questions of 2 passages" in capsys.readouterr().out
    assert stored() == []


def test_reads_the_model_from_the_environment(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("질문 {n}개", encoding="utf-8")
    with chat_server(lambda text: "음…" if "대구" in text else json.dumps([f"{text[4:6]}은 어디인가?"])) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.address)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        words = ["data", "generate", file, "--by", "model", "--model", MODEL, "--prompt", str(prompt)]
        assert main(words) == 0
        assert server.requests[0]["messages"][0]["content"] == "질문 1개"
        output = capsys.readouterr().out
        assert "2 questions of 2 passages" in output
        assert "서울은 어디인가?" in output
        assert "Passages without a question: 1\n  p3: unusable: 음…" in output
        server.reply = lambda _: Reply(404, {})
        assert main(words) == 2
        assert capsys.readouterr().err.startswith("error: the endpoint knows no model")
        assert main([*words, "--no-calls", "--name", "둘"]) == 0
        assert "Passages without a request yet: 1" in capsys.readouterr().out
    assert [entry.name for entry in stored()] == ["둘"]  # the same content, under its newest name


def test_command_reports_missing_titles_or_model(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "generate", file, "--by", "sentence", "--min-length", "900", "--max-length", "900"]) == 2
    assert capsys.readouterr().err.startswith("error: no passage has a sentence to spare")
    assert main(["data", "generate", "nowhere", "--by", "title"]) == 2
    assert main(["data", "generate", file, "--by", "model"]) == 2
    assert "name the language model" in capsys.readouterr().err
    assert main(["data", "generate", file]) == 2
    assert main(["data", "inspect", file]) == 0
    assert "No questions: these passages can be searched" in capsys.readouterr().out


def test_reports_interruption(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(*words: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mrc_workbench.data.generate.generate_questions", stop)
    assert main(["data", "generate", file, "--by", "title"]) == 130
    assert "run the same command again to continue" in capsys.readouterr().err

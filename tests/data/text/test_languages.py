"""Tests of languages: stems, stop words, spans and detection."""

import tomllib
import unicodedata
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.text import languages
from mrc_workbench.data.text.analysis import Analysis, analyze, tokens_of, words_in
from mrc_workbench.data.text.analyzers import ANALYZER_OF_LANGUAGE, LANGUAGE_OF, Analyzer, resolve_analyzer
from mrc_workbench.data.text.dictionary import DictionaryError, read_dictionary
from mrc_workbench.data.text.languages import STEMMED, detect_language, language_of
from mrc_workbench.data.text.marking import TokenKind, describe_token, locate_tokens
from tests.data.text.test_analysis import ANY_CHARACTERS, STEMMING

SENTENCES: dict[str, list[str]] = tomllib.loads((Path(__file__).parent / "sentences.toml").read_text(encoding="utf-8"))
OPTIONS = [{}, {"stop_words": True}, {"pairs": True}, {"pairs": True, "stop_words": True}]
ANY_TEXT = ANY_CHARACTERS | st.text(max_size=30)


def stem_in_python(language: str, word: str) -> str:
    """Return the stem by the Python implementation of Snowball."""
    name = STEMMED[language]
    module = import_module(f"snowballstemmer.{name}_stemmer")
    return str(getattr(module, f"{name.capitalize()}Stemmer")().stemWord(word)) or word


def words_of(language: str) -> list[str]:
    return list(dict.fromkeys(word for words in words_in(language, SENTENCES[language]) for word in words))


@pytest.mark.parametrize("language", STEMMED)
def test_stems_are_those_of_snowball(language: str) -> None:
    words = [*words_of(language), *sorted(languages.stop_words(language))[:100]]
    assert languages.stems(language, words) == [stem_in_python(language, word) for word in words]
    assert languages.stems(language, words) != words, "some words have endings"


@settings(deadline=None, max_examples=60)
@given(language=st.sampled_from([*STEMMED]), text=ANY_TEXT)
def test_stems_any_words(language: str, text: str) -> None:
    (words,) = words_in(language, [unicodedata.normalize("NFC", text)])
    actual = languages.stems(language, words)
    assert actual == [stem_in_python(language, word) for word in words]
    assert all(actual)


@pytest.mark.parametrize("options", OPTIONS, ids=["stems", "stop-words", "pairs", "pairs-stop-words"])
@pytest.mark.parametrize("analyzer", STEMMING)
def test_stems_vocabulary_like_single_words(analyzer: Analyzer, options: dict[str, bool]) -> None:
    analysis = Analysis(analyzer, **options)
    texts = [*SENTENCES[LANGUAGE_OF[analyzer]], "", "...", *SENTENCES["en"]]
    tokens = tokens_of(analysis, texts)
    assert tokens.texts() == analyze(analysis, texts)
    assert tokens.vocabulary == list(dict.fromkeys(token for text in tokens.texts() for token in text))
    assert [analyze(analysis, [text])[0] for text in texts] == tokens.texts(), "a single question has the same tokens"


@settings(deadline=None, max_examples=100)
@given(
    analyzer=st.sampled_from(STEMMING),
    texts=st.lists(ANY_TEXT, min_size=2, max_size=5),
    options=st.sampled_from(OPTIONS),
)
def test_batch_and_single_text_tokens_agree(analyzer: Analyzer, texts: list[str], options: dict[str, bool]) -> None:
    analysis = Analysis(analyzer, **options)
    tokens = tokens_of(analysis, texts).texts()
    assert tokens == [analyze(analysis, [text])[0] for text in texts]
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    assert tokens == [[token for token, _ in located_tokens] for located_tokens in locate_tokens(analysis, composed)]


@settings(deadline=None, max_examples=100)
@given(analyzer=st.sampled_from(STEMMING), text=ANY_TEXT)
def test_stem_span_covers_its_word(analyzer: Analyzer, text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    language = LANGUAGE_OF[analyzer]
    tokens = locate_tokens(analyzer, [text])[0]
    spans = [span for _, span in tokens]
    assert spans == sorted(spans)
    for token, (start, end) in tokens:
        (stem,) = languages.stems(language, [languages.lower(language, text[start:end])])
        assert token.replace("ς", "σ") == stem.replace("ς", "σ"), "a sigma at the end of a word looks different"


def test_locates_and_describes_stems() -> None:
    (tokens,) = locate_tokens(Analyzer.ENGLISH, ["Running shoes run."])
    assert tokens == [("run", (0, 7)), ("shoe", (8, 13)), ("run", (14, 17))]
    (pairs,) = locate_tokens(Analysis(Analyzer.ENGLISH, pairs=True), ["Running shoes run."])
    assert pairs == [("run shoe", (0, 13)), ("shoe run", (8, 17))]
    assert describe_token(Analyzer.ENGLISH, "run", "running") == ("running (run)", TokenKind.WORD)
    assert describe_token(Analyzer.ENGLISH, "run", "run") == ("run", TokenKind.WORD)
    assert describe_token(Analyzer.ENGLISH, "run") == ("run", TokenKind.WORD)
    assert describe_token(Analyzer.WORD, "running", "Running") == ("running", TokenKind.WORD)


@pytest.mark.parametrize(
    ("analyzer", "words"),
    [
        (Analyzer.TURKISH, "ISI ısı"),
        (Analyzer.TURKISH, "İSİM isim"),
        (Analyzer.TURKISH, "KİTAPLARI kitapları kitap"),
        (Analyzer.GREEK, "ΟΔΟΣ οδός οδοσ"),
        (Analyzer.GREEK, "άνθρωπος άνθρωποι ΑΝΘΡΩΠΟΙ"),
        (Analyzer.ARABIC, "مُدَرِّس مدرس"),
        (Analyzer.ARABIC, "مـــكتبة مكتبة"),
        (Analyzer.ARABIC, "أحمد احمد"),
        (Analyzer.ARABIC, "الكتاب كتاب كتابه"),
        (Analyzer.ARABIC, "١٢٣ 123"),
        (Analyzer.GERMAN, "Häuser haus Hauses"),
        (Analyzer.GERMAN, "Straße STRASSE"),
        (Analyzer.RUSSIAN, "книга книги книгу"),
        (Analyzer.ENGLISH, "run running runs"),
    ],
)
def test_forms_of_a_word_share_a_stem(analyzer: Analyzer, words: str) -> None:
    assert len(set(analyze(analyzer, [words])[0])) == 1


def test_turkish_distinguishes_dotted_and_dotless_i() -> None:
    assert analyze(Analyzer.TURKISH, ["ISI"]) != analyze(Analyzer.TURKISH, ["İSİ"])
    assert (languages.lower("tr", "IİIı"), languages.lower("en", "I")) == ("ıiıı", "i")


def test_removes_stop_words() -> None:
    analysis = Analysis(Analyzer.ENGLISH, stop_words=True)
    assert analyze(analysis, ["The museum is in a castle."]) == [["museum", "castl"]]
    assert analyze(Analyzer.ENGLISH, ["The museum is in a castle."]) == [["the", "museum", "is", "in", "a", "castl"]]
    for analyzer in (Analyzer.WORD, Analyzer.BIGRAM, Analyzer.KIWI_BIGRAM):
        with pytest.raises(DictionaryError, match=r"stop_words = true"):
            Analysis(analyzer, stop_words=True)


def test_compares_synonyms_by_stem() -> None:
    analysis = Analysis(Analyzer.ENGLISH, dictionary=read_dictionary(b"car, automobile"))
    assert analyze(analysis, ["Cars and automobiles"]) == [["car", "and", "car"]]
    assert tokens_of(analysis, ["Cars", "automobiles"]).texts() == [["car"], ["car"]]
    assert locate_tokens(analysis, ["Automobiles"]) == [[("car", (0, 11))]]


def test_cache_key_distinguishes_stems_from_words() -> None:
    resolved = Analysis(Analyzer.AUTO).resolved(SENTENCES["en"])
    assert resolved.analyzer is Analyzer.ENGLISH
    assert resolved.resolved_key[0] == "english"
    assert Analysis(Analyzer.AUTO).resolved(["한국어 문장입니다."]).resolved_key == ()
    assert Analysis(Analyzer.WORD).resolved_key == ()
    keys = {Analysis(Analyzer.ENGLISH, **options).key for options in OPTIONS}
    assert len(keys) == len(OPTIONS)


@pytest.mark.parametrize("language", SENTENCES)
def test_detects_language_of_corpus_and_sentences(language: str) -> None:
    texts = [" ".join(SENTENCES[language])] * 3
    assert language_of(texts) == language
    assert resolve_analyzer(Analyzer.AUTO, texts) is ANALYZER_OF_LANGUAGE.get(language, Analyzer.WORD)
    assert resolve_analyzer(Analyzer.BIGRAM, texts) is Analyzer.BIGRAM
    for two in (SENTENCES[language][:2], SENTENCES[language][2:]):
        assert language_of(two) in {language, ""}, "few sentences are not taken for another language"
    assert sum(bool(languages.foreign_language(sentence, language)) for sentence in SENTENCES[language]) <= 1


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["한국어 문장입니다."], "ko"),
        (["東京タワーは高い。"], "ja"),
        (["博物馆每天上午九点开门。"], "zh"),
        (["พิพิธภัณฑ์เปิดทุกวัน"], "th"),
        (["AB-123", "M6 x 20", "XK 500"], ""),
        (["12 345", ""], ""),
        ([], ""),
    ],
)
def test_detects_language_by_script_or_none(texts: list[str], language: str) -> None:
    assert language_of(texts) == language


def test_mixed_corpus_has_no_language() -> None:
    mixed = [" ".join(SENTENCES[language]) for language in ("de", "fr", "en") for _ in range(20)]
    assert language_of(mixed) == ""
    assert resolve_analyzer(Analyzer.AUTO, mixed) is Analyzer.WORD
    mostly = mixed[:20] + [" ".join(SENTENCES["en"])] * 2
    assert language_of(mostly) == "de"


def test_detects_language_once_per_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [" ".join(SENTENCES["sv"]), "once"]
    assert detect_language(texts).language == "sv"

    def fail(*_: object) -> str:
        raise AssertionError("detected again")

    monkeypatch.setattr(languages, "_language", fail)
    assert detect_language(iter(texts)).language == "sv"


@pytest.mark.parametrize("language", ["en", "ko", "ru"])
def test_detects_most_foreign_sentences(language: str) -> None:
    others = [(code, text) for code, texts in SENTENCES.items() if code != language for text in texts]
    detected_languages = [(code, languages.foreign_language(text, language)) for code, text in others]
    assert sum(bool(other) for _, other in detected_languages) > 0.8 * len(detected_languages)
    assert sum(code == other for code, other in detected_languages) > 0.7 * len(detected_languages)


@pytest.mark.parametrize(
    ("text", "language", "foreign"),
    [
        ("한글은 누가 만들었나?", "en", "ko"),
        ("東京タワーの高さは?", "ko", "ja"),
        ("東京都庁所在地", "ja", ""),
        ("iPhone 15 Pro Max", "ko", ""),
        ("AB-123", "en", ""),
        ("", "en", ""),
    ],
)
def test_short_text_in_another_script_is_foreign(text: str, language: str, foreign: str) -> None:
    assert languages.foreign_language(text, language) == foreign

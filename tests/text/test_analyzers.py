import unicodedata

import pytest

from text.analysis import analyze
from text.analyzers import Analyzer, choose

NAMED = [analyzer for analyzer in Analyzer if analyzer is not Analyzer.AUTO]
KOREAN = "한글은 세종대왕이 만들었다."
JAPANESE = "東京タワーは高い。"
THAI = "กรุงเทพ"
ENGLISH = "The B-52's don't fly 30%!"


@pytest.mark.parametrize(
    ("analyzer", "text", "tokens"),
    [
        (Analyzer.WHITESPACE, KOREAN, "한글은 세종대왕이 만들었다."),
        (Analyzer.WHITESPACE, ENGLISH, "The B-52's don't fly 30%!"),
        (Analyzer.WHITESPACE, JAPANESE, "東京タワーは高い。"),
        (Analyzer.WORD, KOREAN, "한글은 세종대왕이 만들었다"),
        (Analyzer.WORD, ENGLISH, "the b 52 s don t fly 30"),
        (Analyzer.WORD, THAI, "กรุงเทพ"),
        (Analyzer.BIGRAM, KOREAN, "한글 글은 세종 종대 대왕 왕이 만들 들었 었다"),
        (Analyzer.BIGRAM, ENGLISH, "th he b 52 s do on t fl ly 30"),
        (Analyzer.BIGRAM, JAPANESE, "東京 京タ タワ ワー ーは は高 高い"),
        (Analyzer.BIGRAM, THAI, "กร รุ ุง งเ เท ทพ"),
        (Analyzer.KIWI, KOREAN, "한글 세종 대왕 만들"),
        (Analyzer.KIWI, "東京, Tower, 333m", "東京 tower 333 m"),
        (Analyzer.KIWI_BIGRAM, KOREAN, "한글/ 세종/ 대왕/ 만들/ 한글 글은 세종 종대 대왕 왕이 만들 들었 었다"),
    ],
)
def test_tokens(analyzer: Analyzer, text: str, tokens: str) -> None:
    assert analyze(analyzer, [text]) == [tokens.split()]


@pytest.mark.parametrize("analyzer", NAMED)
def test_loose_letters_are_composed(analyzer: Analyzer) -> None:
    texts = [KOREAN, "Café in Zürich", "ガラパゴス"]
    loose = [unicodedata.normalize("NFD", text) for text in texts]
    assert loose != texts
    assert analyze(analyzer, loose) == analyze(analyzer, texts)


@pytest.mark.parametrize("analyzer", NAMED)
def test_nothing_in_nothing_out(analyzer: Analyzer) -> None:
    assert analyze(analyzer, ["", " \n\t"]) == [[], []]
    assert analyze(analyzer, []) == []


@pytest.mark.parametrize("analyzer", [a for a in NAMED if a is not Analyzer.WHITESPACE])
def test_punctuation_is_no_token(analyzer: Analyzer) -> None:
    assert analyze(analyzer, ["... ?! —「」%"]) == [[]]


def test_repeated_tokens_are_repeated() -> None:
    assert analyze(Analyzer.WORD, ["a b a"]) == [["a", "b", "a"]]


def test_names_of_several_words_are_split() -> None:
    (tokens,) = analyze(Analyzer.KIWI, ["뉴욕 타임스와 마틴 루터 킹"])
    assert {"뉴욕", "타임스", "마틴", "루터", "킹"} <= set(tokens)
    assert not [token for token in tokens if token.split() != [token]]


def test_a_long_text_is_analyzed_like_its_sentences() -> None:
    assert analyze(Analyzer.KIWI_BIGRAM, [KOREAN, ENGLISH] * 3) == analyze(Analyzer.KIWI_BIGRAM, [KOREAN, ENGLISH]) * 3


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        ([KOREAN], Analyzer.KIWI_BIGRAM),
        ([unicodedata.normalize("NFD", KOREAN)], Analyzer.KIWI_BIGRAM),
        ([KOREAN + " of the Latin letters, which are many here"], Analyzer.KIWI_BIGRAM),
        ([JAPANESE], Analyzer.BIGRAM),
        ([THAI], Analyzer.BIGRAM),
        ([ENGLISH], Analyzer.WORD),
        ([ENGLISH * 20 + "서울"], Analyzer.WORD),
        (["Москва — столица."], Analyzer.WORD),
        (["12 345"], Analyzer.WORD),
        ([], Analyzer.WORD),
    ],
)
def test_choice_by_script(texts: list[str], chosen: Analyzer) -> None:
    assert choose(Analyzer.AUTO, texts) is chosen


def test_a_named_analyzer_is_not_chosen_again() -> None:
    assert choose(Analyzer.WHITESPACE, [KOREAN]) is Analyzer.WHITESPACE

"""Tests of analyzers with dictionaries and compounds: tokens, spans and keys."""

import unicodedata
from importlib.metadata import version
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.cache import key_of, read_arrays
from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text import marking
from mrc_workbench.data.text.analysis import Analysis, analyze, tokens_of
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, VERSION, Analyzer, Compounds, resolve_analyzer
from mrc_workbench.data.text.dictionary import Dictionary, DictionaryError, read_dictionary
from mrc_workbench.data.text.marking import TokenKind, describe_token, locate_tokens
from mrc_workbench.data.texts import fingerprint_of
from tests.doubles import raises_failure

NAMED = [analyzer for analyzer in Analyzer if analyzer is not Analyzer.AUTO]
STEMMING = [analyzer for analyzer in NAMED if analyzer in LANGUAGE_OF]
KOREAN = "한글은 세종대왕이 만들었다."
JAPANESE = "東京タワーは高い。"
THAI = "กรุงเทพ"
ENGLISH = "The B-52's don't fly 30%!"
DICTIONARY = read_dictionary(
    """세종시 세종 시
블랙 펄\tNNP
국립중앙박물관 국립 중앙 박물관
경부고속도로
GPT-4
자동차, 차량, 승용차
휴대폰, 핸드폰 => 휴대 전화
구매하다, 사다
""".encode()
)
_KOREAN_WORDS = (
    "경부고속도로의|국립중앙박물관에서|코로나바이러스감염증|뉴욕 타임스|블랙 펄을|블랙펄|휴대 전화|핸드폰으로|gpt-4와|"
    "샀다.|차량보험|대한민국정부|1443년|😀|\n|한|ㄱ|İ"
)
WITH_NAMES = st.lists(st.sampled_from(_KOREAN_WORDS.split("|")), max_size=8).map(" ".join)


def kiwi(text: str, compounds: Compounds = Compounds.AS_READ, dictionary: Dictionary | None = None) -> list[str]:
    return analyze(Analysis(Analyzer.KIWI, compounds, dictionary), [text])[0]


@pytest.mark.parametrize(
    ("analyzer", "text", "tokens"),
    [
        (Analyzer.WHITESPACE, KOREAN, "한글은 세종대왕이 만들었다."),
        (Analyzer.WHITESPACE, ENGLISH, "The B-52's don't fly 30%!"),
        (Analyzer.WHITESPACE, JAPANESE, "東京タワーは高い。"),
        (Analyzer.WORD, KOREAN, "한글은 세종대왕이 만들었다"),
        (Analyzer.WORD, ENGLISH, "the b 52 s don t fly 30"),
        (Analyzer.WORD, THAI, "กรุงเทพ"),
        (Analyzer.WORD, "a b a", "a b a"),
        (Analyzer.BIGRAM, KOREAN, "한글 글은 세종 종대 대왕 왕이 만들 들었 었다"),
        (Analyzer.BIGRAM, ENGLISH, "th he b 52 s do on t fl ly 30"),
        (Analyzer.BIGRAM, JAPANESE, "東京 京タ タワ ワー ーは は高 高い"),
        (Analyzer.BIGRAM, THAI, "กร รุ ุง งเ เท ทพ"),
        (Analyzer.JAPANESE, JAPANESE, "東京 京タ タワ ワー ーは は高 高い 東| 京| 高| 東京/ タワー/ 高/"),
        (Analyzer.JAPANESE, "Toyota、2024年", "to oy yo ot ta 20 02 24 4年 年| toyota/ 2024/ 年/"),
        (Analyzer.KIWI, KOREAN, "한글 세종 대왕 만들"),
        (Analyzer.KIWI, "東京, Tower, 333m", "東京 tower 333 m"),
        (Analyzer.KIWI_BIGRAM, KOREAN, "한글/ 세종/ 대왕/ 만들/ 한글 글은 세종 종대 대왕 왕이 만들 들었 었다"),
    ],
)
def test_tokenizes_by_every_analyzer(analyzer: Analyzer, text: str, tokens: str) -> None:
    assert analyze(analyzer, [text]) == [tokens.split()]
    assert analyze(analyzer, [text, ENGLISH] * 3) == analyze(analyzer, [text, ENGLISH]) * 3, "texts are apart"


@pytest.mark.parametrize("analyzer", NAMED)
def test_composes_characters_and_skips_blanks_and_punctuation(analyzer: Analyzer) -> None:
    texts = [KOREAN, "Café in Zürich", "ガラパゴス"]
    loose = [unicodedata.normalize("NFD", text) for text in texts]
    assert loose != texts
    assert analyze(analyzer, loose) == analyze(analyzer, texts)
    assert analyze(analyzer, ["", " \n\t"]) == [[], []]
    assert analyze(analyzer, []) == []
    if analyzer is not Analyzer.WHITESPACE:
        assert analyze(analyzer, ["... ?! —「」%"]) == [[]]


def test_splits_multiword_names() -> None:
    (tokens,) = analyze(Analyzer.KIWI, ["뉴욕 타임스와 마틴 루터 킹"])
    assert {"뉴욕", "타임스", "마틴", "루터", "킹"} <= set(tokens)
    assert not [token for token in tokens if token.split() != [token]]
    located_tokens = locate_tokens(Analyzer.KIWI, ["그는 뉴욕 타임스를 샀다", ""])
    assert {("뉴욕", (3, 5)), ("타임스", (6, 9))} <= set(located_tokens[0])
    assert located_tokens[1] == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([KOREAN], Analyzer.KIWI_BIGRAM),
        ([unicodedata.normalize("NFD", KOREAN)], Analyzer.KIWI_BIGRAM),
        ([KOREAN + " of the Latin letters, which are many here"], Analyzer.KIWI_BIGRAM),
        ([JAPANESE], Analyzer.JAPANESE),
        (["东京塔很高。"], Analyzer.BIGRAM),
        ([THAI], Analyzer.BIGRAM),
        ([ENGLISH], Analyzer.ENGLISH),
        ([ENGLISH * 20 + "서울"], Analyzer.ENGLISH),
        (["Москва — столица."], Analyzer.WORD),
        (["12 345"], Analyzer.WORD),
        ([], Analyzer.WORD),
    ],
)
def test_resolves_auto_by_script(texts: list[str], expected: Analyzer) -> None:
    assert resolve_analyzer(Analyzer.AUTO, texts) is expected
    assert resolve_analyzer(Analyzer.WHITESPACE, texts) is Analyzer.WHITESPACE


@pytest.mark.parametrize(
    ("text", "compounds", "tokens"),
    [
        ("경부고속도로", Compounds.AS_READ, "경부고속도로"),
        ("경부고속도로", Compounds.SPLIT, "경부 고속 도로"),  # the smallest parts: those of 고속도로 are the same
        ("고속도로", Compounds.SPLIT, "고속 도로"),
        ("고속도로", Compounds.BOTH, "고속도로 고속 도로"),
        ("대한민국정부", Compounds.AS_READ, "대한민국 정부"),
        ("대한민국정부", Compounds.WHOLE, "대한민국정부"),
        ("대한민국정부", Compounds.BOTH, "대한민국정부 대한민국 대한 민국 정부"),
        ("고속 도로", Compounds.WHOLE, "고속 도로"),  # two words stay two
        ("코로나바이러스감염증", Compounds.AS_READ, "코로나바이러스 감염증"),
        ("코로나바이러스감염증", Compounds.WHOLE, "코로나바이러스감염증"),
        ("네덜란드", Compounds.SPLIT, "네덜란드"),  # 네덜란/드: Kiwi knows no such part
        ("1443년 한글은", Compounds.BOTH, "1443 년 한글"),
    ],
)
def test_compounds(text: str, compounds: Compounds, tokens: str) -> None:
    assert kiwi(text, compounds) == tokens.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "compounds", "tokens"),
    [
        ("세종시는", Compounds.AS_READ, "세종시"),
        ("세종시는", Compounds.SPLIT, "세종 시"),
        ("세종시는", Compounds.BOTH, "세종시 세종 시"),
        ("국립중앙박물관", Compounds.AS_READ, "국립중앙박물관"),
        ("경부고속도로", Compounds.SPLIT, "경부고속도로"),  # one of the dictionary's, without parts
        ("블랙 펄을 블랙펄이", Compounds.AS_READ, "블랙펄 블랙펄"),
        ("블랙 펄을", Compounds.SPLIT, "블랙 펄"),
        ("GPT-4와 gpt-4는", Compounds.AS_READ, "gpt-4 gpt-4"),
        ("차량과 승용차", Compounds.AS_READ, "자동차 자동차"),
        ("승용차보험", Compounds.WHOLE, "자동차보험"),
        ("핸드폰, 휴대 전화, 휴대전화", Compounds.AS_READ, "휴대전화 휴대전화 휴대전화"),
        ("핸드폰과 휴대전화", Compounds.SPLIT, "휴대 전화 휴대 전화"),
        ("집을 샀다", Compounds.AS_READ, "집 구매"),  # a verb, by its stem
        ("구매했다", Compounds.AS_READ, "구매"),
    ],
)
def test_words_and_synonyms_of_a_dictionary(text: str, compounds: Compounds, tokens: str) -> None:
    assert kiwi(text, compounds, DICTIONARY) == tokens.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("analyzer", "pairs"),
    [
        (Analyzer.WORD, ["한글은 세종대왕이", "세종대왕이 만들었다"]),
        (Analyzer.KIWI, ["한글 세종", "세종 대왕", "대왕 만들"]),
        (Analyzer.KIWI_BIGRAM, ["한글 세종", "세종 대왕", "대왕 만들"]),
    ],
)
def test_pairs_join_neighbouring_tokens(analyzer: Analyzer, pairs: list[str]) -> None:
    paired = Analysis(analyzer, pairs=True)
    assert analyze(paired, [KOREAN, "하나", ""]) == [pairs, [], []]
    surfaces = [KOREAN[slice(*span)] for _, span in locate_tokens(paired, [KOREAN])[0]]
    assert surfaces[0].startswith("한글")
    assert surfaces[-1].endswith("만들었다" if analyzer is Analyzer.WORD else "만들")
    assert {describe_token(paired, token) for token in pairs} == {(token, TokenKind.WORD) for token in pairs}


def test_bigrams_match_the_text() -> None:
    with_dictionary = Analysis(Analyzer.KIWI_BIGRAM, dictionary=DICTIONARY)
    assert analyze(with_dictionary, ["차량"]) == [["자동차/", "차량"]]
    assert describe_token(with_dictionary, "자동차/") == ("자동차", TokenKind.MORPHEME)


def test_replaces_words_by_synonyms_without_kiwi() -> None:
    texts = ["차량 핸드폰 Gpt-4 자동차를"]
    tokens = analyze(Analysis(Analyzer.WORD, dictionary=DICTIONARY), texts)
    assert tokens == [["자동차", "휴대전화", "gpt", "4", "자동차를"]]
    dictionary = read_dictionary(b"NLP => language\n")
    tokens = analyze(Analysis(Analyzer.WHITESPACE, dictionary=dictionary), ["nlp Nlp (NLP)"])
    assert tokens == [["language", "language", "(NLP)"]]


@pytest.mark.slow
@pytest.mark.parametrize("compounds", Compounds)
@pytest.mark.parametrize("dictionary", [None, DICTIONARY], ids=["no", "dictionary"])
@pytest.mark.parametrize("analyzer", [Analyzer.KIWI, Analyzer.KIWI_BIGRAM])
@settings(deadline=None, max_examples=25)
@given(text=WITH_NAMES)
def test_located_tokens_equal_analyzed_tokens(
    analyzer: Analyzer, dictionary: Dictionary | None, compounds: Compounds, text: str
) -> None:
    analysis = Analysis(analyzer, compounds, dictionary)
    tokens = locate_tokens(analysis, [text])[0]
    assert [token for token, _ in tokens] == analyze(analysis, [text])[0]
    for token, (start, end) in tokens:
        assert 0 <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip(), token


@pytest.mark.parametrize("analyzer", [Analyzer.WORD, Analyzer.WHITESPACE])
@settings(deadline=None, max_examples=25)
@given(text=WITH_NAMES)
def test_synonym_spans_cover_the_written_word(analyzer: Analyzer, text: str) -> None:
    analysis = Analysis(analyzer, dictionary=DICTIONARY)
    tokens = locate_tokens(analysis, [text])[0]
    plain = locate_tokens(analyzer, [text])[0]
    assert [token for token, _ in tokens] == analyze(analysis, [text])[0]
    assert [span for _, span in tokens] == [span for _, span in plain]


def test_locates_parts_and_synonyms() -> None:
    analysis = Analysis(Analyzer.KIWI, Compounds.BOTH, DICTIONARY)
    (spans,) = marking.spans_by_token(analysis, ["세종시의 블랙 펄과 승용차"])
    expected = {"세종시": (0, 3), "세종": (0, 2), "시": (2, 3), "블랙펄": (5, 9), "블랙": (5, 7), "펄": (8, 9)}
    assert spans == {token: (span,) for token, span in (expected | {"자동차": (11, 14)}).items()}
    assert marking.spans_by_token(Analyzer.WORD, ["b a b", ""]) == [{"b": ((0, 1), (4, 5)), "a": ((2, 3),)}, {}]


@pytest.mark.parametrize(
    ("analyzer", "compounds", "dictionary", "code"),
    [
        (Analyzer.BIGRAM, Compounds.AS_READ, DICTIONARY, "no_use"),
        (Analyzer.JAPANESE, Compounds.AS_READ, DICTIONARY, "no_use"),
        (Analyzer.WORD, Compounds.SPLIT, None, "no_use"),
        (Analyzer.WORD, Compounds.AS_READ, read_dictionary("세종시".encode()), "no_synonyms"),
    ],
)
def test_rejects_options_that_an_analyzer_cannot_use(
    analyzer: Analyzer, compounds: Compounds, dictionary: Dictionary | None, code: str
) -> None:
    with raises_failure(code):
        Analysis(analyzer, compounds, dictionary)
    script = {Analyzer.BIGRAM: "东京塔很高。", Analyzer.JAPANESE: JAPANESE, Analyzer.WORD: "words"}[analyzer]
    with pytest.raises(DictionaryError, match=analyzer.value):
        Analysis(Analyzer.AUTO, compounds, dictionary).resolved([script])
    assert Analysis(Analyzer.AUTO, compounds, dictionary).resolved(["한글"]).analyzer is Analyzer.KIWI_BIGRAM


def test_reuses_stored_tokens_of_the_same_analyzer_only() -> None:
    texts = ["차량은 고속도로를", "달린다"]
    seen = set()
    for compounds, dictionary in product((Compounds.AS_READ, Compounds.SPLIT), (None, DICTIONARY)):
        analysis = Analysis(Analyzer.KIWI, compounds, dictionary)
        assert tokens_of(analysis, texts).texts() == analyze(analysis, texts)
        seen.add(analysis.key)
    assert len(seen) == 4
    assert Analysis.from_analyzer(Analyzer.KIWI).key == (Analyzer.KIWI,)
    assert read_arrays("tokens", key_of(VERSION, "kiwi", fingerprint_of(texts))) is not None
    with_it = ("kiwi", "as-read", DICTIONARY.fingerprint, version("kiwipiepy"))
    assert Analysis(Analyzer.KIWI, dictionary=DICTIONARY).key == with_it


WRITTEN = [analyzer for analyzer in NAMED if not analyzer.startswith("kiwi")]
ANY_CHARACTERS = st.text("abΣİẞ 1.,\u0307한각글가ㄱ\n\u00a0\x1c𠮷中", max_size=25)
_PLAIN_WORDS = "세종대왕은|한글을|만들었다.|뉴욕 타임스|ABC|한|갔다|𠮷野|😀|1443년|\n|왕|왕은"
KOREAN_TEXT = st.lists(st.sampled_from(_PLAIN_WORDS.split("|")), max_size=8).map(" ".join)


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("analyzer", NAMED)
@settings(deadline=None, max_examples=60)
@given(text=ANY_CHARACTERS | KOREAN_TEXT, pairs=st.booleans())
def test_located_tokens_are_in_order(analyzer: Analyzer, text: str, pairs: bool) -> None:
    text = composed(text)
    analysis = Analysis(analyzer, pairs=pairs)
    tokens = locate_tokens(analysis, [text])[0]
    assert [token for token, _ in tokens] == analyze(analysis, [text])[0]
    assert all(0 <= start < end <= len(text) for _, (start, end) in tokens)


@pytest.mark.parametrize(
    "analyzer", [analyzer for analyzer in WRITTEN if analyzer not in (*STEMMING, Analyzer.JAPANESE)]
)
@settings(deadline=None, max_examples=60)
@given(text=ANY_CHARACTERS)
def test_span_covers_the_characters_of_its_token(analyzer: Analyzer, text: str) -> None:
    text = composed(text)
    tokens = locate_tokens(analyzer, [text])[0]
    for token, (start, end) in tokens:
        there = text[start:end] if analyzer is Analyzer.WHITESPACE else text[start:end].lower()
        assert token.replace("ς", "σ") in there.replace("ς", "σ")  # a sigma at a word's end looks different
    starts = [start for _, (start, _) in tokens]
    assert starts == sorted(starts)


@settings(deadline=None, max_examples=60)
@given(text=ANY_CHARACTERS | st.text("東京タワーIİ年年x1 、", max_size=20))
def test_locates_kanji_and_runs(text: str) -> None:
    text = composed(text)
    pairs = locate_tokens(Analyzer.BIGRAM, [text])[0]
    (tokens,) = locate_tokens(Analyzer.JAPANESE, [text])
    assert tokens[: len(pairs)] == pairs
    for token, (start, end) in tokens[len(pairs) :]:
        assert token[-1] in "/|"
        assert token[:-1] in text[start:end].lower()
        assert describe_token(Analyzer.JAPANESE, token)[1] is (TokenKind.WORD if token[-1] == "/" else TokenKind.BIGRAM)


def test_locates_tokens_of_every_analyzer() -> None:
    text = "한글 글"
    assert locate_tokens(Analyzer.WHITESPACE, [text])[0] == [("한글", (0, 2)), ("글", (3, 4))]
    assert locate_tokens(Analyzer.WORD, ["Abc, bc"])[0] == [("abc", (0, 3)), ("bc", (5, 7))]
    expected = [("ab", (0, 2)), ("bc", (1, 3)), ("c", (4, 5)), ("bc", (7, 9))]
    assert locate_tokens(Analyzer.BIGRAM, ["Abc c, bc"])[0] == expected
    assert locate_tokens(Analyzer.KIWI, ["왕은 갔다"])[0] == [("왕", (0, 1)), ("가", (3, 4))]
    assert locate_tokens(Analyzer.KIWI_BIGRAM, ["왕은"])[0] == [("왕/", (0, 1)), ("왕은", (0, 2))]


@pytest.mark.parametrize(
    ("analyzer", "token", "read"),
    [
        (Analyzer.KIWI_BIGRAM, "왕국/", ("왕국", TokenKind.MORPHEME)),
        (Analyzer.KIWI_BIGRAM, "왕국", ("왕국", TokenKind.BIGRAM)),
        (Analyzer.KIWI, "왕국", ("왕국", TokenKind.MORPHEME)),
        (Analyzer.BIGRAM, "왕국", ("왕국", TokenKind.BIGRAM)),
        (Analyzer.WORD, "왕국", ("왕국", TokenKind.WORD)),
        (Analyzer.WHITESPACE, "왕국/", ("왕국/", TokenKind.WORD)),
    ],
)
def test_describes_tokens_by_kind(analyzer: Analyzer, token: str, read: tuple[str, TokenKind]) -> None:
    assert describe_token(analyzer, token) == read


def test_piece_weight_sums_overlapping_spans() -> None:
    weights = [((0, 2), 1.0), ((1, 3), 0.5), ((4, 5), -2.0)]
    expected = zip("abcdef", (1.0, 1.5, 0.5, 0.0, -2.0, 0.0), strict=True)
    assert marking.weighted_pieces("abcdef", weights, 0, 6) == [*expected]
    assert marking.weighted_pieces("abcdef", weights, 2, 4) == [("c", 0.5), ("d", 0.0)]
    assert marking.weighted_pieces("abcdef", [], 0, 6) == [("abcdef", 0.0)]
    assert marking.weighted_pieces("", [], 0, 0) == []


@given(ANY_CHARACTERS, ANY_CHARACTERS, st.booleans())
def test_cuts_title_and_text_separately(title: str, text: str, with_title: bool) -> None:
    passage = Passage("p", text, title)
    indexed = marking.indexed_text(passage, title=with_title)
    assert indexed.text == composed(Passages.from_passages([passage]).indexed_texts(title=with_title)[0])
    assert indexed.text[indexed.start :] == composed(text)
    displayed_title = "".join(piece for piece, _ in indexed.title_pieces([]))
    assert displayed_title == (composed(title) if with_title else "")
    assert "".join(piece for piece, _ in indexed.text_pieces([((0, 1), 1.0)])) == composed(text)

"""Which column holds which sentence, score or label, told by Korean and English names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from data.files.cells import as_text, is_blank
from data.files.columns import plain_name


@dataclass(frozen=True)
class PairColumns:
    """The name of the column for each role, None where there is none."""

    sentence1: str | None = None
    sentence2: str | None = None
    sentence3: str | None = None
    score: str | None = None
    label: str | None = None
    part: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The columns of sentences, up to the first that is missing."""
        columns = (self.sentence1, self.sentence2, self.sentence3)
        return tuple(name for place, name in enumerate(columns) if name is not None and None not in columns[:place])


SENTENCES = ("sentence1", "sentence2", "sentence3")

# By role, the best name first; compared as `plain_name` makes them.
NAMES: dict[str, tuple[str, ...]] = {
    "part": ("part", "split", "partition", "subset", "구분", "분할", "용도", "데이터구분"),
    "score": (
        "score", "similarity", "similarityscore", "relatednessscore", "relatedness", "stsscore", "sim", "rating",
        "isduplicate", "isparaphrase", "점수", "유사도", "유사도점수", "평점", "관련도",
    ),
    "label": (
        "goldlabel", "label", "entailmentlabel", "entailmentjudgment", "nlilabel", "relation", "class", "gold",
        "라벨", "레이블", "판정", "관계", "정답", "추론", "함의여부",
    ),
    "sentence3": (
        "sentence3", "sent3", "text3", "negative", "neg", "hardnegative", "hardneg", "sentencec",
        "문장3", "셋째문장", "부정", "부정문장", "다른문장", "오답문장",
    ),
    "sentence2": (
        "sentence2", "sent2", "s2", "text2", "question2", "hypothesis", "hypo", "positive", "pos", "entailment",
        "sentenceb", "textb", "translation", "target", "en", "eng", "english", "paraphrase",
        "문장2", "둘째문장", "두번째문장", "뒷문장", "가설", "번역", "번역문", "영어", "영문", "긍정", "긍정문장",
        "같은문장", "질문2",
    ),
    "sentence1": (
        "sentence1", "sent1", "s1", "text1", "question1", "premise", "anchor", "sentencea", "texta", "query", "ko",
        "kor", "korean", "sentence", "sent", "text", "utterance", "document", "content",
        "문장1", "첫문장", "첫째문장", "첫번째문장", "앞문장", "전제", "기준문장", "원문", "한국어", "국문", "질문1",
        "문장", "텍스트", "발화", "내용", "본문",
    ),
}  # fmt: skip
_SAMPLE_ROWS = 100


def guess_pair_columns(names: Sequence[str], sample: Iterable[Mapping[str, object]] = ()) -> PairColumns:
    """Guess the columns from their names, and those of sentences from the look of some rows where no name tells.

    A known name wins, whole or behind its last dot ("labels.label"). Where none is known for the first sentence, the
    columns of which most cells are several words are taken in order, if they are no more than a row has sentences.
    """
    rows = list(sample)[:_SAMPLE_ROWS]
    filled = [name for name in names if not rows or not all(is_blank(row.get(name)) for row in rows)]
    chosen: dict[str, str] = {}
    for candidates in (filled, names):
        for role in NAMES:
            left = [name for name in candidates if name not in chosen.values()]
            if role not in chosen and (name := _named(role, left)) is not None:
                chosen[role] = name
    missing = [role for role in SENTENCES if role not in chosen]
    if SENTENCES[0] in missing:
        left = [name for name in filled if name not in chosen.values() and _has_words(name, rows)]
        chosen |= dict(zip(missing, left, strict=False)) if len(left) <= len(missing) else {}
    return PairColumns(**chosen)


def is_known(name: str) -> bool:
    """Whether a column of this name is known to hold something."""
    return any(plain_name(name) in known for known in NAMES.values())


def wanted_names(role: str) -> str:
    """Return a few names that are known for a role, between commas, Korean ones first."""
    korean = [name for name in NAMES[role] if not name.isascii()]
    return ", ".join([*korean[:3], *NAMES[role][:3]])


def _named(role: str, names: Sequence[str]) -> str | None:
    for shorten in (str, lambda name: name.rpartition(".")[2]):
        by_plain = {plain_name(shorten(name)): name for name in reversed(names)}
        if found := next((by_plain[known] for known in NAMES[role] if known in by_plain), None):
            return found
    return None


def _has_words(name: str, rows: Sequence[Mapping[str, object]]) -> bool:
    return 2 * sum(" " in as_text(row.get(name)) for row in rows) > len(rows)

from hypothesis import given
from hypothesis import strategies as st

from data.passages import Passage
from data.read import GatheredPassages
from data.texts import BLOCK


@given(st.lists(st.tuples(st.text("가나", max_size=2), st.sampled_from(["", "t", "u"])), max_size=20))
def test_equal_texts_are_one_under_the_first_title_known(rows: list[tuple[str, str]]) -> None:
    gathered = GatheredPassages()
    known: dict[str, str] = {}
    for text, title in rows:
        assert gathered.find(text) == (list(known).index(text) if text in known else len(known))
        known[text] = known.get(text) or title
        assert gathered.add(text, title, "") == list(known).index(text)
    ids = [str(place) for place in range(len(known))]
    expected = [Passage(id_, text, title) for id_, (text, title) in zip(ids, known.items(), strict=True)]
    assert gathered.passages(ids) == expected


def test_texts_in_closed_blocks_are_found() -> None:
    gathered = GatheredPassages()
    for row in range(BLOCK + 2):
        gathered.add(f"글 {row}", "", "")
    assert (gathered.find("글 0"), gathered.find(f"글 {BLOCK}")) == (0, BLOCK)
    assert gathered.add("글 1", "제목", "") == 1
    passages = gathered.passages(map(str, range(len(gathered))))
    assert (len(passages), passages[1]) == (BLOCK + 2, Passage("1", "글 1", "제목"))


class SameHash(str):
    """Texts that only their letters tell apart."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


def test_texts_with_one_hash_are_told_apart() -> None:
    gathered = GatheredPassages()
    texts = [SameHash(text) for text in "가나다"]
    assert [gathered.add(text, "", "") for text in [*texts, *texts]] == [0, 1, 2, 0, 1, 2]
    assert gathered.find(SameHash("라")) == 3

"""What pages keep of dictionaries: read by content, and the words of a set looked for once."""

import pytest

from data.split import Part, SplitOptions, split
from tests.views.compare.worlds import sample
from text.dictionary import Dictionary, DictionaryError, Word
from text.kept_dictionaries import keep, remove
from views.resources.retrieval import dictionary_of, is_read, words_cut_wrongly
from views.resources.sets import question_set


@pytest.mark.slow
def test_words_are_looked_for_once_for_every_dictionary_and_never_in_test_questions() -> None:
    data, shares = sample(), SplitOptions()
    told: list[float] = []
    assert not is_read(data, shares, "")
    found = words_cut_wrongly(data, shares, "", told.append)
    assert told[0] == 0
    assert told[-1] == 1
    assert told == sorted(told)
    assert is_read(data, shares, "")
    assert words_cut_wrongly(data, shares, "", pytest.fail) is found
    questions = question_set(data.key)
    unseen = {questions.questions[row].text for row in split(questions, shares).rows[Part.TEST]}
    assert unseen
    assert not unseen & set(found.questions)
    mended = keep(Dictionary(tuple(Word(one.word) for one in found.words)), "mended")
    assert not is_read(data, shares, mended.reference)
    left = words_cut_wrongly(data, shares, mended.reference, told.append)
    assert len(left.words) < len(found.words) / 2


def test_a_removed_dictionary_is_gone_though_it_was_read() -> None:
    kept = keep(Dictionary((Word("경인선"),)), "철도")
    assert dictionary_of(kept.reference) == Dictionary((Word("경인선"),))
    remove(kept.key)
    with pytest.raises(DictionaryError, match="is kept"):
        dictionary_of(kept.reference)

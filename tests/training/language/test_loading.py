"""While the text is read a training tells how far that is, and hears that it should stop; it begins anew then."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from data.workspace import workspace
from jobs.folder import AskedToStop
from jobs.status import State, Status
from language.corpus import Corpus, find_corpus
from language.masking.token_file import write_tokens
from language.tokenizers.material import Sample, gathered
from language.tokenizers.train import train_on
from tests.training.language.worlds import SHARES, created, options_of, text_file
from tests.training.test_resume import again
from tests.training.worlds import trained
from training.language.material import LanguageMaterial
from training.runs.runs import Phase, Run
from training.train import train

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"evaluation_limit": 8}


@pytest.fixture(autouse=True)
def _told_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("language.tokenizers.material._CHARACTERS_BETWEEN", 100)
    monkeypatch.setattr("training.train._SECONDS_BETWEEN_WRITES", 0.0)


def test_all_of_the_work_is_told_of_from_its_beginning_to_its_end() -> None:
    corpus, shares = find_corpus(text_file(300, seed=3)), list[float]()
    LanguageMaterial.of(corpus, SHARES, options_of(), shares.append)
    assert shares == sorted(shares)
    assert shares[0] < 0.01
    assert shares[-1] == 1.0
    cutting = [share for share in shares if share >= 2 / 3]
    assert len(cutting) > 0.9 * 2 * corpus.characters / 200, "in both readings, one for each part"
    assert np.diff(cutting).max() < 0.05
    again = list[float]()
    LanguageMaterial.of(corpus, SHARES, options_of(), again.append)
    assert again == [], "it is found"


def test_a_tokenizer_that_is_there_takes_no_share_of_it(tmp_path: Path) -> None:
    corpus, shares = find_corpus(text_file(300, seed=4)), list[float]()
    folder = tmp_path / "tokenizer"
    LanguageMaterial.of(corpus, SHARES, options_of()).tokenizer.save_pretrained(folder)
    LanguageMaterial.of(corpus, SHARES, options_of(tokenizer=str(folder), whole_words="morphemes"), shares.append)
    # documents cut by then, of those learned from or measured on: two ninths of these are measured on
    expected = [7 / 9 * min(1.0, seen / corpus.characters) for seen in _gone_through(corpus)] + [7 / 9]
    expected += [7 / 9 + 2 / 9 * min(1.0, seen / corpus.characters) for seen in _gone_through(corpus)] + [1.0]
    assert shares == pytest.approx(expected)


def _gone_through(corpus: Corpus) -> Iterator[int]:
    seen = told = 0
    for document in corpus.documents():
        seen += len(document)
        if seen - told > 100:
            yield (told := seen)


def test_the_status_tells_it_and_begins_anew_with_the_next_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    told, write = list[Status](), Run.write_status

    def noted(run: Run, status: Status) -> None:
        told.append(status)
        write(run, status)

    monkeypatch.setattr(Run, "write_status", noted)
    trained(created(text_file(60, seed=5), **OPTIONS))
    shares = {phase: [status.share for status in told if status.phase == phase] for phase in Phase}
    assert shares[Phase.LOADING] == sorted(shares[Phase.LOADING])
    assert len(set(shares[Phase.LOADING])) > 20
    assert shares[Phase.LOADING][-1] == 1.0
    assert shares[Phase.MEASURING_BEFORE] == shares[Phase.PREPARING] == [0.0]
    assert not shares[Phase.MINING], "a language model has no hard negatives to look for"
    assert set(shares[Phase.MEASURING_AFTER]) == {1.0}, "of the steps"


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_a_wish_to_stop_ends_the_reading_of_a_tokenizers_training(kind: str) -> None:
    corpus = find_corpus(text_file(60))

    def stop(share: float) -> None:
        raise AskedToStop

    options, sample = options_of(tokenizer_kind=kind), Sample(held_out=SHARES.test + SHARES.validation)
    with gathered(corpus, sample) as material, pytest.raises(AskedToStop):
        train_on(material, options.tokenizer_kind, options.vocabulary, stop)


def test_a_wish_to_stop_is_heard_while_the_library_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    run, merged = created(text_file(60, seed=6), **OPTIONS), Event()

    def merging(*_: Any) -> None:
        run.ask_to_stop()
        assert merged.wait(300)

    with monkeypatch.context() as patch:
        patch.setattr("training.language.tokenizer.train_on", merging)
        ended = train(run)
    merged.set()
    assert (ended.state, ended.phase) == (State.STOPPED, Phase.LOADING)
    assert made("tokenizers") == []
    goes_on(run)


def test_a_wish_to_stop_is_heard_while_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    run = created(text_file(60, seed=7), **OPTIONS)
    parts = list[str]()

    def stopped_in_the_second_part(folder: Path, *told: Any) -> None:
        parts.append(folder.name)
        if len(parts) == 2:
            run.ask_to_stop()
        write_tokens(folder, *told)

    with monkeypatch.context() as patch:
        patch.setattr("training.language.material.write_tokens", stopped_in_the_second_part)
        ended = train(run)
    assert (ended.state, ended.phase, ended.step) == (State.STOPPED, Phase.LOADING, 0)
    assert 0.9 < ended.share < 1, "nearly all was cut"
    assert parts == ["train", "validation"]
    assert len(made("tokenizers")) == 1, "that was done by then"
    assert made("tokens") == []
    goes_on(run)


def test_what_goes_wrong_in_a_tokenizers_training_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise MemoryError("nothing left")

    monkeypatch.setattr("training.language.tokenizer.train_on", failing)
    ended = train(created(text_file(60, seed=8), **OPTIONS))
    assert (ended.state, ended.code, ended.message) == (State.FAILED, "memory", "nothing left")


def made(kind: str) -> list[Path]:
    """What is left in the cache of this kind, but for the files that say whose turn it is."""
    return [path for path in (workspace() / "cache" / kind).glob("*") if path.is_dir()]


def goes_on(run: Run) -> None:
    again(run)
    trained(run)
    assert len(made("tokens")) == 1

"""Pairs read in a process of its own come out as in this one."""

import os
import signal
import sys
from pathlib import Path

import pytest

from data import apart
from data.apart import UnusableFileError
from data.formats.columns import PairColumns
from data.pairs import reading
from data.pairs.reading import PairOptions, read_pair_files_apart, read_pairs, read_pairs_apart
from data.pairs.records import PairKind
from data.problems import DataError, ProblemCode
from data.split import Part
from data.workspace import workspace

ROWS = [f"가 {row}\t나 {row}\t{row % 6}" for row in range(12)]
TRAIN = "\n".join(["sentence1\tsentence2\tscore", "\t나\t1", *ROWS]).encode()
TEST = "\n".join(["문장1\t문장2\t점수", *ROWS, "가\t나\t많이"]).encode()
FILES = [(TRAIN, "sts-train.tsv"), (TEST, "sts-test.tsv")]
OPTIONS = PairOptions({"part": None}, PairKind.SCORED, (0, 6), (None, Part.TEST))


def check(options: PairOptions | None) -> None:
    there, here = read_pairs_apart(FILES, options), read_pairs(FILES, options)
    assert there.files == here.files
    assert all(one.rejected.equals(other.rejected) for one, other in zip(there.files, here.files, strict=True))
    assert there.pairs.name == here.pairs.name == "sts"
    assert there.pairs.fingerprint == here.pairs.fingerprint
    assert there.left_out == 2
    assert list(workspace().iterdir()) == []


@pytest.mark.parametrize("options", [None, OPTIONS], ids=["guessed", "given"])
def test_it_is_what_is_read_in_place(options: PairOptions | None) -> None:
    check(options)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="copies processes")
@pytest.mark.parametrize("way", ["forked", "served", "fresh"])
def test_every_way_to_another_process(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", getattr(apart, way))
    try:
        check(OPTIONS)
    finally:
        for server in apart._server:
            server.kill()
            server.wait()
        apart._server.clear()


def test_a_failure_comes_with_the_columns_to_choose_from(tmp_path: Path) -> None:
    path = tmp_path / "표.tsv"
    path.write_text("가\t나\n1\t2\n", encoding="utf-8")
    with pytest.raises(UnusableFileError, match="No column of sentences was found") as told:
        read_pair_files_apart([path])
    assert told.value.proposal == (PairColumns(), ("가", "나"), ({"가": "1", "나": "2"},))


def test_a_failure_of_several_files_names_its_file() -> None:
    with pytest.raises(UnusableFileError, match=r"^sts-dev\.tsv: The file is empty") as told:
        read_pairs_apart([*FILES, (b" ", "sts-dev.tsv")])
    assert told.value.problem.code is ProblemCode.EMPTY_FILE
    assert told.value.proposal.available == ("sentence1", "sentence2", "score")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="copies processes")
def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "started", apart.forked)
    monkeypatch.setattr(reading, "read_pairs", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(DataError, match="ended the process that read it"):
        read_pairs_apart(FILES)

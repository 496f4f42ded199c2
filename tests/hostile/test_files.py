"""Small files that ask for much are read or refused within their limits."""

import resource
import sys

import psutil
import pytest

from mrc_workbench.data import subprocess_reader
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.subprocess_reader import ReadingLimits
from tests.data.sample_files import read_in_subprocess
from tests.hostile.files import FILES

MOST_MEMORY = 2**29


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the system holds to no limit")
@pytest.mark.parametrize("name", FILES)
def test_reads_or_rejects_a_file_within_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, refusal = FILES[name]
    content = make(0.5)
    limits = ReadingLimits.for_contents(Content(content))
    monkeypatch.setattr(subprocess_reader, "start_process", subprocess_reader.fork_process)
    monkeypatch.setattr(subprocess_reader, "_NICENESS", 0)  # beside other tests it would be given a tenth of a core
    monkeypatch.setattr(
        ReadingLimits, "for_contents", lambda _: ReadingLimits(min(limits.memory, MOST_MEMORY), limits.seconds)
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # the most that any child ever held
    own = psutil.Process().memory_info().rss  # a fork is born with it
    if refusal is None:
        reading = read_in_subprocess(content, "set")
        assert reading.question_set.questions
        assert (len(reading.problems) <= 20_000, len(reading.rejected) <= 10_000) == (True, True)
    else:
        with pytest.raises(DataError, match=refusal):
            read_in_subprocess(content, "set")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert most == before or most * 1024 < own + 2 * MOST_MEMORY

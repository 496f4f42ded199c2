"""Tests of studies: stored results by key or name, exports and tables."""

import json
import math
from dataclasses import field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from mrc_workbench.data import studies
from mrc_workbench.data.commands import ExitStatus, run_command_line, study_commands
from mrc_workbench.data.jobs.folder import Progress, State
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.studies import Array, Column, ColumnUnit, Study, StudyJob


class CountError(Failure):
    """A subclass of `Failure`."""


class Spec(BaseModel):
    size: int = 3


@dataclass(config=ConfigDict(arbitrary_types_allowed=True))
class Result:
    values: Array
    parts: dict[str, Array]
    bound: studies.Number = math.inf
    errors: list[studies.StoredError] = field(default_factory=list)


def run(spec: Spec, progress: Progress) -> Result:
    progress("counting", 0.5)
    if spec.size < 0:
        raise CountError("negative", "size must be 0 or more", size=spec.size)
    parts = {"a|b": np.arange(spec.size, dtype=np.int32)}
    return Result(np.linspace(0, 1, spec.size), parts, -math.inf, [CountError("few", "too few", size=1), KeyError("x")])


def frame(result: Result) -> pd.DataFrame:
    rows = {"name": ["a|b", "c"], "count": [1234, 5], "share": [0.5, math.nan], "bytes": [10, 20], "seconds": [1.25, 2]}
    return pd.DataFrame(rows | {"unused": [0, 0]})


COLUMNS = (
    Column("name", ColumnUnit.TEXT),
    Column("count", ColumnUnit.COUNT),
    Column("share", ColumnUnit.FRACTION, 1),
    Column("bytes", ColumnUnit.BYTES),
    Column("seconds", ColumnUnit.SECONDS),
)
TABLE = studies.ResultTable("all_rows", frame, COLUMNS)
STUDY = Study(name="counts", summary="Count.", versions=(1,), spec=Spec, result=Result, run=run, tables=(TABLE,))


def finished(size: int = 3) -> StudyJob[Spec, Result]:
    job = STUDY.job(Spec(size=size))
    job.folder.mkdir(parents=True, exist_ok=True)
    job.write_spec(Spec(size=size))
    assert job.run() == 0
    return job


def test_stores_and_loads_typed_results() -> None:
    job = finished()
    assert job.read_spec() == Spec(size=3)
    assert job.status().state is State.DONE
    result = job.load()
    assert result.values.tolist() == [0, 0.5, 1]
    assert (result.parts["a|b"].dtype, result.parts["a|b"].tolist()) == (np.int32, [0, 1, 2])
    assert result.bound == -math.inf
    first, second = result.errors
    assert isinstance(first, CountError)
    assert (first.code, first.details, str(first)) == ("few", {"size": 1}, "too few")
    assert "x" in str(second)
    stored = json.loads((job.folder / "scores.json").read_text(encoding="utf-8"))
    assert stored["values"] == {"array": "array_0"}
    content = json.loads(STUDY.results.content.dump_json(run(Spec(), lambda *_: None)))
    assert content["values"] == [0, 0.5, 1]
    assert STUDY.results.content.validate_python(content).values.tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("name", ["scores.json", "arrays.npz"])
def test_rejects_damaged_or_missing_result(name: str) -> None:
    job = finished()
    (job.folder / name).write_bytes(b'{"values": {"array": "array_7"}}')
    with pytest.raises(ValueError, match=job.id):
        job.load()
    (job.folder / name).unlink()
    with pytest.raises(ValueError, match=r"holds no (finished )?result of counts"):
        job.load()


def test_failed_run_reports_its_code() -> None:
    job = STUDY.job(Spec(size=-1))
    job.folder.mkdir(parents=True)
    job.write_spec(Spec(size=-1))
    assert job.run() == 2
    assert (job.status().state, job.status().code) == (State.FAILED, "negative")
    assert STUDY.stored() == []


def test_key_depends_on_spec_version_and_inputs() -> None:
    other = replace(STUDY, versions=(2,))
    inputs = replace(STUDY, inputs=lambda spec: (spec.size,))
    specs = (Spec(), Spec(size=4))
    jobs = [*map(STUDY.job, specs), STUDY.job(Spec(), "data"), other.job(Spec()), inputs.job(Spec())]
    assert len({job.folder for job in jobs}) == 5
    assert STUDY.job(Spec()) == STUDY.job(Spec(size=3))


def test_job_on_dataset_does_not_depend_on_its_reference() -> None:
    class DataSpec(Spec):
        data: str = ""

    study = replace(STUDY, spec=DataSpec)
    by_name = study.job_on(DataSpec(data="sample"), "abc")
    assert study.job_on(DataSpec(data="5ab6feb379263eec"), "abc") == by_name
    others = [study.job_on(DataSpec(data="sample"), "abd"), study.job_on(DataSpec(data="sample", size=4), "abc")]
    assert by_name not in others


def test_numbers_stay_numbers_except_in_json() -> None:
    content = TypeAdapter(Result).dump_python(Result(np.zeros(1), {}, math.inf))
    assert content["bound"] == math.inf


def test_commands_compute_again_what_is_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    commands = study_commands(STUDY)  # of a spec without required fields
    assert run_command_line(commands, ["run", "--size", "2"]) == 0
    (job,) = STUDY.stored()
    (job.folder / "arrays.npz").write_bytes(b"damaged")
    assert not job.is_readable
    assert run_command_line(commands, ["run", "--size", "2"]) == 0
    assert job.is_readable
    capsys.readouterr()
    assert run_command_line(commands, ["show", "nothing"]) == ExitStatus.NOTHING_DONE
    assert capsys.readouterr().err == "error: counts has no stored result 'nothing'\n"


def test_lists_renames_and_deletes_results() -> None:
    first = finished(1)
    second = finished(2)
    (STUDY.folder / "no key").mkdir()
    assert {job.id for job in STUDY.stored()} == {first.id, second.id}
    second.rename("  two \n rows ")
    assert STUDY.find("two rows") == second
    assert STUDY.find(first.id) == first
    with pytest.raises(ValueError, match="no stored result 'nothing'"):
        STUDY.find("nothing")
    first.delete()
    assert STUDY.stored() == [second]


def test_tables_show_units_in_terminal_markdown_csv_and_report(tmp_path: Path) -> None:
    job = finished()
    (table,) = STUDY.tables
    lines = table.lines(job.load())
    assert lines[0].split() == ["count", "share", "(%)", "bytes", "seconds"]
    rows = [line.split() for line in lines[1:]]
    assert rows == [["a|b", "1,234", "50.0", "10", "1.25"], ["c", "5", "-", "20", "2.00"]]
    assert "| a\\|b | 1,234 | 50.0 | 10 | 1.25 |" in table.markdown(job.load())
    job.export(tmp_path)
    written = (tmp_path / "all_rows.csv").read_text(encoding="utf-8-sig").splitlines()
    assert written == ["name,count,share,bytes,seconds", "a|b,1234,0.5,10,1.25", "c,5,,20,2.0"]
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text == studies.report(job)
    assert "## Settings\n\n- size: 3\n" in text
    assert "## All rows" in text

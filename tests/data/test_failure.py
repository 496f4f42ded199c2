import pytest

from data.problems import DataError, Failure, ProblemCode


def test_what_is_written_is_read_again() -> None:
    failure = Failure("run_broken_line", "line 3 is broken", run="a.trec", line=3)
    assert str(failure) == "line 3 is broken"
    again = Failure.from_dict(failure.as_dict())
    assert (again.code, str(again), again.details) == (failure.code, str(failure), failure.details)


@pytest.mark.parametrize(
    ("entry", "code", "details"),
    [
        ({"error": "e", "code": "hub_unknown", "model": "m"}, "hub_unknown", {"model": "m"}),
        ({"error": "e", "code": "run_not_found", "run": "r", "line": 0}, "run_not_found", {"run": "r", "line": 0}),
        ({"error": "e", "code": "milvus_busy", "milvus": "http://host:1"}, "milvus_busy", {"milvus": "http://host:1"}),
        ({"error": "e"}, "", {}),
    ],
)
def test_every_kind_that_a_comparison_keeps_is_read(entry: dict[str, object], code: str, details: object) -> None:
    failure = Failure.from_dict(entry)
    assert (str(failure), failure.code, failure.details) == ("e", code, details)


def test_an_error_with_data_is_a_failure_with_the_values_of_its_words() -> None:
    error = DataError.of(ProblemCode.UNKNOWN_SET, reference="x", known="y, z")
    assert isinstance(error, Failure)
    assert (error.code, error.details) == ("unknown_set", {"reference": "x", "known": "y, z"})

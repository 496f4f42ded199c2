"""What a user may take: refused with a code and figures, and nothing of it kept."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from data.records import Passage, QuestionSet
from data.store import keep, stored
from data.workspace import (
    LimitError,
    Limits,
    acting_as,
    limits,
    require_few_passages,
    require_place,
    require_room,
    shared_workspace,
    used_bytes,
    user_of,
    workspace,
)

ALICE = user_of("https://id.example.org", "alice")


def a_set(passages: int, letters: int = 1) -> QuestionSet:
    return QuestionSet("set", tuple(Passage(str(row), "가" * letters + str(row)) for row in range(passages)), ())


def test_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits() == Limits()
    assert (limits().paths, limits().addresses) == (False, False)
    for name, value in (("MEGABYTES", "7"), ("JOBS", " 2 "), ("PASSAGES", "10"), ("PATHS", "1"), ("EMAILS", "")):
        monkeypatch.setenv(f"MRC_USER_{name}", value)
    assert limits() == Limits(megabytes=7, jobs=2, passages=10, paths=True)


@pytest.mark.parametrize(("name", "value"), [("MEGABYTES", "0"), ("JOBS", "many"), ("PASSAGES", "-1"), ("PATHS", "x")])
def test_nonsense_is_refused_and_not_taken_for_no_limit(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"MRC_USER_{name}", value)
    with pytest.raises(ValidationError):
        limits()


def test_who_may_sign_in() -> None:
    assert Limits().lets_in("")
    some = Limits(emails="Kim@example.org, @school.kr")
    assert [some.lets_in(one) for one in ("kim@example.org", "KIM@EXAMPLE.ORG", "lee@school.kr")] == [True] * 3
    refused = (
        "",
        "lee@example.org",
        "lee@sub.school.kr",
        "lee@school.kr.example.org",
        "school.kr",
        "kim",
    )
    assert [some.lets_in(one) for one in refused] == [False] * 6


def test_who_works_alone_and_a_job_of_a_users_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PASSAGES", "1")
    monkeypatch.setenv("MRC_USER_JOBS", "1")
    keep(a_set(2))
    require_place(5)
    monkeypatch.setenv("MRC_USER", ALICE)
    keep(a_set(3))
    require_place(5)
    require_few_passages(5)


def test_a_set_of_too_many_passages_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PASSAGES", "2")
    with acting_as(ALICE):
        keep(a_set(2))
        with pytest.raises(LimitError) as refused:
            keep(a_set(3))
        assert (refused.value.code, refused.value.details) == ("passages", {"passages": "3", "limit": "2"})
        assert [kept.passages for kept in stored()] == [2]


def test_what_does_not_fit_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_MEGABYTES", "1")
    with acting_as(ALICE):
        keep(a_set(10))
        before, files = used_bytes(), sorted(workspace().rglob("*"))
        with pytest.raises(LimitError) as refused:
            keep(a_set(10, letters=50_000))  # three bytes a letter
        assert (refused.value.code, refused.value.details["limit"]) == ("megabytes", "1")
        assert float(str(refused.value.details["used"])) >= 1
        assert (used_bytes(), sorted(workspace().rglob("*"))) == (before, files)


def test_used_bytes_are_those_of_the_users_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with acting_as(ALICE):
        assert used_bytes() == 0
        (workspace() / "runs" / "one").mkdir(parents=True)
        (workspace() / "runs" / "one" / "model").write_bytes(b"x" * 1234)
        (workspace() / "note").write_bytes(b"y" * 66)
        large = tmp_path / "large"
        large.write_bytes(b"z" * 10_000)
        (workspace() / "link").symlink_to(large)
        assert 1300 <= used_bytes() < 1300 + 4096  # the link itself is some bytes, what it names is not theirs
    (shared_workspace() / "datasets").mkdir()
    (shared_workspace() / "datasets" / "shared").write_bytes(b"x" * 9999)
    with acting_as(ALICE):
        assert used_bytes() < 1300 + 4096
        require_room()


def test_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_JOBS", "3")
    with acting_as(ALICE):
        require_place(2)
        require_place(0, 3)
        for others, more in ((3, 1), (1, 3)):
            with pytest.raises(LimitError) as refused:
                require_place(others, more)
            assert (refused.value.code, refused.value.details) == ("jobs", {"jobs": others, "limit": 3})

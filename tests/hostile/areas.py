"""Attacks beyond files of questions, each with an oracle; a case is an area and a seed.

A result is a verdict ("refused", "reported", "silent", "made anew") and a list of errors.
"""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from mrc_workbench.data.cache import SEAL, is_intact, seal
from mrc_workbench.data.pairs import PairKind, audit_pairs
from mrc_workbench.data.pairs.builder import MAX_SCORE, parse_score
from mrc_workbench.data.pairs.store import read_pairs
from mrc_workbench.data.problems import DataError
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.comparison.experiment import ExperimentError, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.lexical.index import Postings, mapped_postings
from mrc_workbench.retrieval.rankings import Rankings
from tests.doubles import QUESTIONS, small_set, texts_of
from tests.hostile.damages import damage_bytes
from tests.retrieval.lexical.postings import query_arrays, segments_with

Verdict = tuple[str, list[str]]
_SCORES = (
    *("1e39", "-1e39", "1e300", "1e999", "9" * 5000, "1e15", "1e16", "-0", "nan", "inf", "1_000", "1,000", "5,000"),
    *("4,5", "", "-", "0x1", "٣", "1e-320", "1e-999", "true", "네", "+.5", "1,000,000", "2147483648", "."),
)
_NUMBERS = (
    *("nan", "inf", "-inf", "-1", "-1.0", "0", "0.0", "1e308", "1e-308", "2147483647", "2147483648", str(2**63)),
    *("1" + "0" * 400, "true", '"1"', "[]", "[[1]]", "{}", "0.5", "3", "1e6", "1000001.0", "[" * 3000 + "]" * 3000),
)
_OF_ALL = ("ks", "seed", "validation_fraction", "test_fraction", "split", "unknown", "data")
_OF_BM25 = ("k1", "b", "title_weight", "fb_docs", "fb_terms", "fb_weight", "name", "engine")


def pairs(seed: int) -> Verdict:
    """Missing or huge scores: a row is read with its number or skipped, and all metrics are finite."""
    draw = random.Random(seed)
    scores = [draw.choice(_SCORES) if draw.random() < 0.3 else f"{draw.random() * 5:.2f}" for _ in range(30)]
    rows = "".join(f"가 {row}\t나 {row}\t{score}\n" for row, score in enumerate(scores))
    try:
        reading = read_pairs([(f"sentence1\tsentence2\tscore\n{rows}".encode(), "damaged.tsv")])
    except DataError as error:
        return "refused", [] if str(error) else ["no words"]
    pair_set = reading.pairs
    wrong = []
    if len(pair_set) + reading.left_out != len(scores):
        wrong.append("rows were lost")
    if pair_set.kind is PairKind.SCORED:
        expected_scores = {f"가 {row}": parse_score(score) for row, score in enumerate(scores)}
        stored_scores = dict(zip(pair_set.texts[0], pair_set.values.tolist(), strict=True))
        wrong += [
            f"{text} is {value}" for text, value in stored_scores.items() if np.float32(expected_scores[text]) != value
        ]
        if not (np.isfinite(pair_set.gold).all() and abs(np.array(pair_set.scale)).max() <= MAX_SCORE):
            wrong.append(f"no finite share of {pair_set.scale}")
    audit_pairs(pair_set)
    return ("reported" if reading.files[0].problems else "silent"), wrong


def experiments(seed: int) -> Verdict:
    """Values that cannot be: refused by their place, or every score is a number."""
    draw = random.Random(seed)
    top = {name: draw.choice(_NUMBERS) for name in draw.sample(_OF_ALL[:-1], draw.randrange(3))}
    own = {name: draw.choice(_NUMBERS) for name in draw.sample(_OF_BM25[:-2], draw.randrange(4))}
    if "ks" in top and draw.random() < 0.7:
        top["ks"] = f"[{top['ks']}]"
    lines = ['data = "small"', *(f"{name} = {value}" for name, value in top.items())]
    lines += ["[[retriever]]", 'name = "a"', 'kind = "bm25"', *(f"{name} = {value}" for name, value in own.items())]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "experiment.toml")
        path.write_bytes(_maybe_damaged("\n".join(lines).encode(), draw))
        try:
            experiment = read_experiment(path)
        except ExperimentError as error:
            return "refused", [] if str(error).startswith("experiment.toml") else [str(error)[:200]]
    for spec in experiment.retriever:
        if isinstance(spec, BM25Spec) and not spec.dictionary:
            rankings = BM25(spec.name, small_set().passages, spec.options()).search(
                texts_of(QUESTIONS), max(experiment.ks)
            )
            if not np.isfinite(rankings.scores[rankings.indices >= 0]).all() or rankings.indices.shape[1] > 5:
                return "silent", [f"scores that are none, or too many: {lines}"]
    return "silent", []


def _maybe_damaged(content: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.7:
        return content
    position = draw.randrange(len(content))
    return content[:position] + draw.randbytes(draw.randrange(1, 4)) + content[position + draw.randrange(3) :]


_DOCUMENTS = [[random.Random(row * 50 + word).randrange(7) for word in range(20)] for row in range(200)]


def index(seed: int) -> Verdict:
    """A stored index with damaged, truncated, missing or no files: rankings stay the same, before and after."""
    rng = np.random.default_rng(seed)
    before = _search_postings()
    folder = next(path for path in (workspace() / "cache" / "postings").iterdir() if path.is_dir())
    held = _open_postings()
    files = sorted(folder.iterdir())
    for row in rng.choice(len(files), rng.integers(1, 4), replace=False):
        _damage_path(files[row], rng)
    wrong = [] if _are_equal(held.search(*query_arrays(_QUERIES), 9), before) else ["what was open changed"]
    del held
    return "made anew", wrong + ([] if _are_equal(_search_postings(), before) else ["other rankings"])


_QUERIES = [[2], [1, 6, 3], [0]]


def _open_postings() -> Postings:
    return mapped_postings("attacked", len(_DOCUMENTS), lambda: segments_with(_DOCUMENTS, 0.9, 0.4, 64), 64)


def _search_postings() -> Rankings:
    return _open_postings().search(*query_arrays(_QUERIES), 9)


def _are_equal(first: Rankings, second: Rankings) -> bool:
    return np.array_equal(first.indices, second.indices) and np.array_equal(first.scores, second.scores)


def _damage_path(path: Path, rng: np.random.Generator) -> None:
    content = path.read_bytes()
    match rng.integers(0, 6):
        case 0:
            os.truncate(path, int(rng.integers(0, max(1, len(content)))))
        case 1:
            path.unlink()
        case 2:
            path.unlink()
            os.mkfifo(path)
        case 3:
            path.unlink()
            path.symlink_to(rng.choice(["/dev/zero", "/etc/hostname", "nowhere"]))
        case 4:
            path.unlink()
            path.mkdir()
        case _:
            path.write_bytes(damage_bytes(content, rng) if content else b"x")


def seals(seed: int) -> Verdict:
    """A sealed folder is sound only if no file is changed, added or removed from the list."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "sealed")
        folder.mkdir()
        for name in ("config.json", "weights", "tokens"):
            (folder / name).write_bytes(rng.bytes(rng.integers(1, 3000)))
        seal(folder)
        whole = {path.name: path.read_bytes() for path in folder.iterdir()}
        match rng.integers(0, 4):
            case 0:
                listed = json.loads(whole[SEAL])
                del listed[sorted(listed)[rng.integers(0, len(listed))]]
                (folder / SEAL).write_text(json.dumps(listed))
            case 1:
                (folder / "more").write_bytes(b"")
            case _:
                _damage_path(folder / sorted(whole)[rng.integers(0, len(whole))], rng)
        now = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and not path.is_symlink()}
        if now == whole or ({**now, SEAL: b""} == {**whole, SEAL: b""} and _has_equal_seal(now, whole)):
            return "silent", []
        return "refused", ["taken for sound"] if is_intact(folder) else []


def _has_equal_seal(now: dict[str, bytes], whole: dict[str, bytes]) -> bool:
    try:
        return bool(json.loads(now[SEAL]) == json.loads(whole[SEAL]))
    except (ValueError, KeyError, RecursionError):
        return False


def models(seed: int) -> Verdict:
    """A reader, reranker or sparse encoder of files that do not fit: refused in words, or its figures are the same."""
    from mrc_workbench.models.files import ModelError

    draw = random.Random(seed)
    kind = draw.choice([*_model_kinds()])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(_build_model(kind), Path(temporary, "model")))
        damage = _damage_model(folder, draw)
        try:
            scores = _model_kinds()[kind](str(folder))
        except ModelError:
            return "refused", []
    same = np.allclose(scores, _reference_scores(kind), atol=1e-5)
    return "silent", [] if same else [f"{kind}: other figures with {damage}"]


def _model_kinds() -> dict[str, Callable[[str], np.ndarray]]:
    from mrc_workbench.models.encoders import CrossEncoderScorer, SparseTextEncoder
    from mrc_workbench.models.reader import SpanReader
    from mrc_workbench.models.sources import find_model
    from tests.tiny_models import SENTENCES

    both = [(SENTENCES[3], text) for text in SENTENCES]
    return {
        "reader": lambda folder: SpanReader(find_model(folder)).read(both).scores,
        "reranker": lambda folder: CrossEncoderScorer(find_model(folder), []).score(both),
        "sparse": lambda folder: SparseTextEncoder(find_model(folder), []).encode("passage", SENTENCES).toarray(),
    }


@cache
def _build_model(kind: str) -> Path:
    from tests.tiny_models import build_cross_encoder_base, build_sparse_encoder, with_head

    folder = Path(tempfile.mkdtemp(prefix="attacked."), kind)
    if kind == "sparse":
        return build_sparse_encoder(folder)
    base = build_cross_encoder_base(folder)
    return with_head(base, "QuestionAnswering" if kind == "reader" else "SequenceClassification")


@cache
def _reference_scores(kind: str) -> np.ndarray:
    return _model_kinds()[kind](str(_build_model(kind)))


def _damage_model(folder: Path, draw: random.Random) -> object:
    """Take weights away, or change what the files say of the layers, the tokens or their lengths."""
    from safetensors.numpy import load_file, save_file

    if draw.random() < 0.5:
        weights = load_file(folder / "model.safetensors")
        removed = draw.sample(sorted(weights), draw.randrange(1, 4))
        save_file(
            {n: w for n, w in weights.items() if n not in removed}, folder / "model.safetensors", {"format": "pt"}
        )
        return removed
    name, keys = draw.choice(
        [("config.json", ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "pad_token_id"))] * 3
        + [("tokenizer_config.json", ("model_max_length",))]
    )
    content = json.loads((folder / name).read_text())
    values = (-1, 0, 1, 3, 100_000, 2**70, "x", [], -5, 1e308) if name == "config.json" else (-5, 0, -(2**40), "x", [])
    changed = {draw.choice(keys): draw.choice(values)}
    (folder / name).write_text(json.dumps(content | changed))
    return changed


AREAS: dict[str, Callable[[int], Verdict]] = {
    area.__name__: area for area in (pairs, experiments, index, seals, models)
}

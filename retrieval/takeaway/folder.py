"""The folder that is taken away: what an engine is told, its documents, questions to hold it against, and what differs.

Its page, README.md, tells how it is loaded, what is the same there, what differs, and by how much. A name that a person
gave never becomes a path: files are called by us, and an index by a key of what lies in it.
"""

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.questions.report import written as written_set
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.dictionary import written as written_dictionary
from mrc_workbench.data.workspace import replacing, replacing_folder, write_json, write_text
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.retrieval.comparison.compare import Comparison, materials_of
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.retrieval.comparison.spec import Materials, Spec
from mrc_workbench.retrieval.evaluation.measures import CUT, evaluate
from mrc_workbench.retrieval.takeaway.asking import (
    PROJECTION,
    QUESTION_WEIGHTS,
    TERMS,
    TOLD,
    as_written,
    documents,
    of_questions,
)
from mrc_workbench.retrieval.takeaway.engines import told_to
from mrc_workbench.retrieval.takeaway.fusion import MEASURE, TRAITS, Engine, Figure, Lists, Mix, figure_of, mix_of
from mrc_workbench.retrieval.takeaway.models import ModelFigure, write_models
from mrc_workbench.retrieval.takeaway.readme import SERVERS, readme
from mrc_workbench.retrieval.takeaway.signals import LateTokens, Signal, TakeAwayError, Terms, plan_of

SCRIPTS = Path(__file__).parent / "scripts"
_AT_ONCE = 256  # passages written at a time
_MEASURED, _WRITTEN = 0.4, 0.95  # of the progress: the figures are known, the documents are written
_SET = "questions.zip"
Telling = Callable[[str, float], None]


def take_away(
    comparison: Comparison,
    whole: QuestionSet,
    name: str,
    engine: Engine,
    folder: Path,
    *,
    base: Path | None = None,
    on_progress: Telling = lambda *_: None,
) -> tuple[list[Figure], list[ModelFigure]]:
    """Write a retriever of a comparison as a folder for an engine; returns what every engine would find, and what its
    models say as ONNX, where they are what is written.

    `whole` is the set that the questions compared are of; models named by a path are looked for from `base`. Raises
    `TakeAwayError` where nothing of it is known to the engine, it failed in the comparison, or the folder holds
    something else, and what a model raises.
    """
    if folder.exists() and not (folder / TOLD).is_file() and any(folder.iterdir()):
        message = f"{folder} holds something else: name a folder that is not there yet, or one made before"
        raise TakeAwayError("folder_in_use", message, folder=str(folder))
    names = [result.name for result in comparison.results]
    if name not in names:
        message = f"no retriever of this comparison is called {name!r}; there are: {', '.join(names)}"
        raise TakeAwayError("retriever_failed", message, name=name)
    if name not in comparison.rankings:
        raise TakeAwayError("retriever_failed", f"{name!r} found nothing in this comparison", name=name)
    on_progress("figures", 0.0)
    materials = materials_of(comparison.experiment, comparison.question_set, base, whole=whole)
    models = list[ModelFigure]()
    lists = _lists(name, materials, comparison, needed=engine in TRAITS)
    figures = _figures(comparison, lists, name, lambda share: on_progress("figures", _MEASURED * share))
    mix = mix_of(engine, lists) if lists and engine in TRAITS else None
    with replacing_folder(folder, last=TOLD) as new:
        if mix:
            _write_engine(new, mix, comparison, figures, on_progress)
        elif engine is Engine.ONNX:
            models = write_models(new, comparison, materials, name, lambda share: on_progress("models", _after(share)))
            shutil.copyfile(SCRIPTS / "encode.py", new / "encode.py")
            write_json(new / TOLD, {"engine": engine, "retriever": name})
        else:
            _write_library(new, engine, name, comparison, materials)
        write_text(new / "README.md", readme(name, engine, comparison.question_set, figures, models=models, mix=mix))
        on_progress("files", _WRITTEN)
    on_progress("", 1.0)
    return figures, models


def _after(share: float) -> float:
    """Return the share of all the work that is done when so much of what follows the figures is."""
    return _MEASURED + (_WRITTEN - _MEASURED) * min(1.0, share)


def zip_folder(folder: Path, archive: Path) -> None:
    """Write a folder as a zip archive: relative names in one folder, and no links."""
    with replacing(archive) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                file.write(path, Path("takeaway", path.relative_to(folder)))


def _lists(name: str, materials: Materials, comparison: Comparison, *, needed: bool) -> Lists | None:
    """Return what the signals of the retriever find; None where no engine knows any, and none is `needed`."""
    try:
        return Lists(plan_of(name, materials), [question.text for question in comparison.question_set.questions])
    except TakeAwayError:
        if needed:
            raise
        return None


def _figures(comparison: Comparison, lists: Lists | None, name: str, tell: Callable[[float], None]) -> list[Figure]:
    """Measure what every engine finds; a library asks this program's own search, which changes nothing."""
    found, asked = list[Figure](), comparison.question_set
    for place, engine in enumerate(TRAITS if lists else ()):
        with suppress(TakeAwayError):  # another engine may know what this one does not
            if lists:
                found.append(figure_of(mix_of(engine, lists), comparison.rankings[name], lists, asked))
        tell((place + 1) / len(TRAITS))
    here = evaluate(comparison.rankings[name], asked, (CUT,)).means()[MEASURE]
    return found + [Figure(engine, here, here, 0.0, 0.0) for engine in Engine if engine.is_library]


def _write_engine(
    folder: Path, mix: Mix, comparison: Comparison, figures: Sequence[Figure], on_progress: Telling
) -> None:
    asked, passages = comparison.question_set, comparison.question_set.passages
    index = f"passages_{key_of(passages.fingerprint, [one.field for one in mix.signals], mix.weights)[:12]}"
    told = told_to(mix, index)
    figure = next(asdict(one) for one in figures if one.engine is mix.engine)
    content = {"engine": mix.engine, "address": SERVERS[mix.engine].address, "figure": figure} | asdict(told)
    files = content.pop("files")
    write_json(folder / "engine.json", content)
    signals = [_write_signal(folder, one, mix) for one in mix.signals]
    write_json(folder / TOLD, {"engine": mix.engine, "signals": signals})
    for path, text in files.items():
        write_text(folder / path, text)
    shutil.copyfile(SCRIPTS / "engine.py", folder / "engine.py")

    def rows() -> Iterator[dict[str, Any]]:
        for start in range(0, len(passages), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(passages))
            yield from (as_written(mix, index, one) for one in documents(mix, passages, start, stop))
            on_progress("documents", _after((start + _AT_ONCE) / len(passages)))

    _write_lines(folder / "documents.jsonl", rows())
    texts = [question.text for question in asked.questions]
    columns = {one.field: of_questions(mix.engine, one, texts) for one in mix.signals}

    def questions() -> Iterator[dict[str, Any]]:
        for row, question in enumerate(asked.questions):
            grades = {str(asked.row_of_passage[id_]): grade for id_, grade in question.grade_of.items()}
            values = {name: column[row] for name, column in columns.items()}
            yield {"id": question.id, "text": question.text, "relevant": grades, "values": values}

    _write_lines(folder / "questions.jsonl", questions())


def _write_tokens(folder: Path, signal: LateTokens) -> None:
    """Write what vectors of questions' tokens need beside the model."""
    if signal.encoder.projection is not None:
        np.save(folder / PROJECTION.format(signal.field), signal.encoder.projection, allow_pickle=False)
    if signal.encoder.weights is not None:
        np.save(folder / QUESTION_WEIGHTS.format(signal.field), signal.encoder.weights.by_token, allow_pickle=False)


def _write_signal(folder: Path, signal: Signal, mix: Mix) -> dict[str, Any]:
    """Write what a new question needs of a signal, and return what tells how it is read."""
    if not isinstance(signal, Terms):
        model = signal.model
        if not _is_elsewhere(signal.source):  # it is only here, and goes along
            model = f"model_{signal.field}"
            network = signal.network if isinstance(signal, LateTokens) else signal.encoder.model
            network.save_pretrained(str(folder / model), create_model_card=False)
        told: dict[str, Any] = {"field": signal.field, "kind": signal.kind, "model": model}
        told["precision"] = signal.precision
        if isinstance(signal, LateTokens):
            told["layers"] = signal.layers
            _write_tokens(folder, signal)
        return told
    dictionary = f"{signal.field}_dictionary.txt" if signal.analysis.dictionary else ""
    if signal.analysis.dictionary:
        write_text(folder / dictionary, written_dictionary(signal.analysis.dictionary))
    if mix.engine is Engine.MILVUS:
        write_json(folder / TERMS.format(signal.field), signal.tokens.vocabulary)
    told = {
        "analyzer": signal.analysis.analyzer,
        "compounds": signal.analysis.compounds,
        "pairs": signal.analysis.pairs,
        "stop_words": signal.analysis.stop_words,
        "dictionary": dictionary,
    }
    return {"field": signal.field, "kind": signal.kind, **told}


def _is_elsewhere(source: ModelSource) -> bool:
    return bool(source.hub_id or source.packaged)


def _write_library(folder: Path, engine: Engine, name: str, comparison: Comparison, materials: Materials) -> None:
    """Write the experiment, the set and the models that are only here: the program's own search finds the same."""
    specs = [_taken_along(folder, spec, materials) for spec in comparison.experiment.needed([name])]
    experiment = comparison.experiment.model_copy(update={"data": _SET, "retriever": tuple(specs), "lab": None})
    write_text(folder / "experiment.toml", write_experiment(experiment))
    (folder / _SET).write_bytes(written_set(materials.whole, Layout.BEIR))
    write_json(folder / TOLD, {"engine": engine, "retriever": name})
    for script in ("plain.py", f"{engine.value}_retriever.py"):
        shutil.copyfile(SCRIPTS / script, folder / script)


def _taken_along(folder: Path, spec: Spec, materials: Materials) -> Spec:
    """Return a spec whose model, trained here, lies in the folder; a starter is made of the passages again."""
    if not spec.needs_model:
        return spec
    source = materials.source(dict(spec.local)["model"])
    if _is_elsewhere(source) or source.folder is None:
        return spec
    place = f"model_{key_of(str(source.folder))[:12]}"
    if not (folder / place).exists():
        shutil.copytree(source.folder, folder / place)
    return spec.model_copy(update={"model": place})


def _write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

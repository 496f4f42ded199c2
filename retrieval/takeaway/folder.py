"""The exported folder: requests of an engine, its documents, questions that check it, and a README of the differences.

A name that a user gave never becomes a path: files have fixed names, and an index has a key of its content. The page
downloads the folder as an archive, which a job makes.
"""

import json
import re
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data import workspace
from mrc_workbench.data.cache import key_of
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.questions.read import written as written_set
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.studies import Study, StudyJob
from mrc_workbench.data.text.dictionary import written as written_dictionary
from mrc_workbench.retrieval.comparison.compare import Comparison, materials_of
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.retrieval.comparison.spec import Materials
from mrc_workbench.retrieval.comparison.store import StoredComparison, kept_comparison, load
from mrc_workbench.retrieval.measures import CUT, evaluate
from mrc_workbench.retrieval.report.exports import markdown_text
from mrc_workbench.retrieval.report.words import template
from mrc_workbench.retrieval.takeaway import WORDS, asking
from mrc_workbench.retrieval.takeaway.engines import NAMESPACE, has_free_queries, is_weighted, told_to
from mrc_workbench.retrieval.takeaway.fusion import MEASURE, TRAITS, Engine, Figure, Lists, Mix, figure_of, mix_of
from mrc_workbench.retrieval.takeaway.models import ModelFigure, write_models
from mrc_workbench.retrieval.takeaway.signals import LateTokens, Signal, TakeAwayError, Terms, plan_of

_DIFFERENCES = tomllib.loads(WORDS.read_text(encoding="utf-8"))["takeaway"]
_LIBRARIES = {Engine.LANGCHAIN: "langchain-core", Engine.LLAMAINDEX: "llama-index-core"}
_SCRIPTS = Path(__file__).parent / "scripts"
_AT_ONCE = 256  # passages written at a time
_MEASURED, _WRITTEN = 0.4, 0.95  # of the progress: the metrics are known, the documents are written
_SET = "questions.zip"
_VERSION = 1  # raise it when the same request makes another folder


def readme(
    name: str,
    engine: Engine,
    asked: QuestionSet,
    figures: Sequence[Figure],
    *,
    models: Sequence[ModelFigure] = (),
    mix: Mix | None = None,
) -> str:
    """Return the README as Markdown; every number in it is one of those given."""
    differences = [
        _DIFFERENCES[f"differs_{code}"].format(left_out=", ".join(map(markdown_text, figure.left_out)))
        for figure in figures
        if figure.engine is engine
        for code in figure.differs
    ]
    text = template(Path(__file__).with_name("README.md.jinja")).render(
        text=markdown_text,
        name=name,
        engine=engine,
        library=_LIBRARIES.get(engine, ""),
        mix=mix,
        late=mix and any(isinstance(signal, LateTokens) for signal in mix.signals),
        is_weighted=mix and is_weighted(mix),
        free=mix and engine is Engine.ELASTICSEARCH and has_free_queries(mix),
        address=TRAITS[engine].address if engine in TRAITS else "",
        differences=differences,
        figures=figures,
        models=models,
        megabyte=workspace.MEGABYTE,
        questions=f"{len(asked.questions):,}",
        passages=f"{len(asked.passages):,}",
        data=asked.name,
    )
    return re.sub("\n{3,}", "\n\n", text).rstrip() + "\n"


def take_away(
    comparison: Comparison,
    whole: QuestionSet,
    name: str,
    engine: Engine,
    folder: Path,
    *,
    base: Path | None = None,
    on_progress: Progress = lambda *_: None,
) -> tuple[list[Figure], list[ModelFigure]]:
    """Write a retriever of a comparison as a folder for an engine.

    Returns the metrics of every engine, and those of its models as ONNX, if these are written. `whole` is the set that
    the compared questions come from; paths of models start at `base`. Raises `TakeAwayError` if the engine supports no
    part of it, it failed in the comparison, or the folder holds something else, and the errors of a model.
    """
    if folder.exists() and not (folder / asking.TOLD).is_file() and any(folder.iterdir()):
        message = f"{folder} holds something else: name a folder that is not there yet, or one made before"
        raise TakeAwayError("folder_in_use", message, folder=str(folder))
    if name not in (names := [result.name for result in comparison.results]):
        message = f"no retriever of this comparison is called {name!r}; there are: {', '.join(names)}"
        raise TakeAwayError("retriever_failed", message, name=name)
    if name not in comparison.rankings:
        raise TakeAwayError("retriever_failed", f"{name!r} found nothing in this comparison", name=name)
    on_progress("figures", 0.0)
    asked = comparison.question_set
    materials = materials_of(comparison.experiment, asked, base, whole=whole)
    try:
        lists = Lists(plan_of(name, materials), [question.text for question in asked.questions])
    except TakeAwayError:  # no engine knows any of its signals
        if engine in TRAITS:
            raise
        lists = None
    figures = _figures(comparison, lists, name, lambda share: on_progress("figures", _MEASURED * share))
    mix = mix_of(engine, lists) if lists and engine in TRAITS else None
    models = list[ModelFigure]()
    with workspace.replacing_folder(folder, last=asking.TOLD) as new:
        if mix:
            _write_engine(new, mix, asked, figures, lambda share: on_progress("documents", _after(share)))
        elif engine is Engine.ONNX:
            models = write_models(new, comparison, materials, name, lambda share: on_progress("models", _after(share)))
            shutil.copyfile(_SCRIPTS / "encode.py", new / "encode.py")
            workspace.write_json(new / asking.TOLD, {"engine": engine, "retriever": name})
        else:
            _write_library(new, engine, name, comparison, materials)
        workspace.write_text(new / "README.md", readme(name, engine, asked, figures, models=models, mix=mix))
        on_progress("files", _WRITTEN)
    on_progress("", 1.0)
    return figures, models


def _after(share: float) -> float:
    """Return how much of all work is done when so much of what follows the metrics is."""
    return _MEASURED + (_WRITTEN - _MEASURED) * min(1.0, share)


def _figures(comparison: Comparison, lists: Lists | None, name: str, report: Callable[[float], None]) -> list[Figure]:
    """Measure what every engine finds; a library calls this program's own search, which changes nothing."""
    figures, asked = list[Figure](), comparison.question_set
    for number, engine in enumerate(TRAITS, start=1):
        with suppress(TakeAwayError):  # another engine may know what this one does not
            if lists:
                figures.append(figure_of(mix_of(engine, lists), comparison.rankings[name], lists, asked))
        report(number / len(TRAITS))
    here = evaluate(comparison.rankings[name], asked, (CUT,)).means()[MEASURE]
    return figures + [Figure(engine, here, here, 0.0, 0.0) for engine in Engine if engine.is_library]


def _write_engine(
    folder: Path, mix: Mix, asked: QuestionSet, figures: Sequence[Figure], report: Callable[[float], None]
) -> None:
    passages = asked.passages
    fields = [signal.field for signal in mix.signals]
    index = f"passages_{key_of(passages.fingerprint, fields, mix.weights)[:12]}"
    content = asdict(told_to(mix, index))
    for path, text in content.pop("files").items():
        workspace.write_text(folder / path, text)
    figure = next(asdict(figure) for figure in figures if figure.engine is mix.engine)
    head = {"engine": mix.engine, "address": TRAITS[mix.engine].address, "figure": figure}
    workspace.write_json(folder / "engine.json", head | content)
    signals = [_write_signal(folder, signal, mix) for signal in mix.signals]
    workspace.write_json(folder / asking.TOLD, {"engine": mix.engine, "signals": signals})
    shutil.copyfile(_SCRIPTS / "engine.py", folder / "engine.py")

    def rows() -> Iterator[dict[str, Any]]:
        for start in range(0, len(passages), _AT_ONCE):
            for document in asking.documents(mix, passages, start, min(start + _AT_ONCE, len(passages))):
                id_ = f"id:{NAMESPACE}:{index}::{document['row']}"
                yield {"put": id_, "fields": document} if mix.engine is Engine.VESPA else document  # as `vespa feed`
            report((start + _AT_ONCE) / len(passages))

    _write_lines(folder / "documents.jsonl", rows())
    texts = [question.text for question in asked.questions]
    columns = {signal.field: asking.of_questions(mix.engine, signal, texts) for signal in mix.signals}

    def questions() -> Iterator[dict[str, Any]]:
        for row, question in enumerate(asked.questions):
            grades = {str(asked.row_of_passage[id_]): grade for id_, grade in question.grade_of.items()}
            values = {name: column[row] for name, column in columns.items()}
            yield {"id": question.id, "text": question.text, "relevant": grades, "values": values}

    _write_lines(folder / "questions.jsonl", questions())


def _write_signal(folder: Path, signal: Signal, mix: Mix) -> dict[str, Any]:
    """Write what a new question needs of a signal, and return how it is read."""
    field, values = signal.field, {"field": signal.field, "kind": signal.kind}
    if isinstance(signal, Terms):
        analysis = signal.analysis
        dictionary = f"{field}_dictionary.txt" if analysis.dictionary else ""
        if analysis.dictionary:
            workspace.write_text(folder / dictionary, written_dictionary(analysis.dictionary))
        if mix.engine is Engine.MILVUS:
            workspace.write_json(folder / asking.TERMS.format(field), signal.tokens.vocabulary)
        options = {name: getattr(analysis, name) for name in ("analyzer", "compounds", "pairs", "stop_words")}
        return values | options | {"dictionary": dictionary}
    model = signal.model
    if not (signal.source.hub_id or signal.source.packaged):  # it exists only here, and is exported
        model = f"model_{field}"
        network = signal.network if isinstance(signal, LateTokens) else signal.encoder.model
        network.save_pretrained(str(folder / model), create_model_card=False)
    values |= {"model": model, "precision": signal.precision}
    if not isinstance(signal, LateTokens):
        return values
    if signal.encoder.projection is not None:
        np.save(folder / asking.PROJECTION.format(field), signal.encoder.projection, allow_pickle=False)
    if signal.encoder.weights is not None:
        np.save(folder / asking.QUESTION_WEIGHTS.format(field), signal.encoder.weights.by_token, allow_pickle=False)
    return values | {"layers": signal.layers}


def _write_library(folder: Path, engine: Engine, name: str, comparison: Comparison, materials: Materials) -> None:
    """Write the experiment, the set and the models that exist only here: the program's own search finds the same."""
    specs = []
    for spec in comparison.experiment.needed([name]):
        source = materials.source(dict(spec.local)["model"]) if spec.needs_model else None
        if source is None or not source.folder or source.hub_id or source.packaged:
            specs.append(spec)  # a starter is made from the passages again
            continue
        model = f"model_{key_of(str(source.folder))[:12]}"
        if not (folder / model).exists():
            shutil.copytree(source.folder, folder / model)
        specs.append(spec.model_copy(update={"model": model}))
    experiment = comparison.experiment.model_copy(update={"data": _SET, "retriever": tuple(specs), "lab": None})
    workspace.write_text(folder / "experiment.toml", write_experiment(experiment))
    (folder / _SET).write_bytes(written_set(materials.whole, Layout.BEIR))
    workspace.write_json(folder / asking.TOLD, {"engine": engine, "retriever": name})
    for script in ("plain.py", f"{engine.value}_retriever.py"):
        shutil.copyfile(_SCRIPTS / script, folder / script)


def _write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def zip_folder(folder: Path, archive: Path) -> None:
    """Write a folder as a zip archive: relative names in one folder, and no links."""
    with workspace.replacing(archive) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                file.write(path, Path("takeaway", path.relative_to(folder)))


@dataclass(frozen=True)
class Wanted:
    """A retriever of a stored comparison, by the comparison's key and its own name, and what it is exported for."""

    comparison: str
    retriever: str
    engine: Engine


@dataclass(frozen=True)
class Taken:
    """What was measured while a folder was made: the metrics of each engine, and of each model as ONNX."""

    figures: Sequence[Figure]
    models: Sequence[ModelFigure] = ()


def taken_from(of: StoredComparison, wanted: Wanted, folder: Path, on_progress: Progress) -> Taken:
    """Make the folder of a stored comparison's retriever. Raises as `take_away` does."""
    whole = find(of.reference, of.folder)
    comparison = load(of.folder, whole)
    name, engine = wanted.retriever, wanted.engine
    return Taken(*take_away(comparison, whole, name, engine, folder, base=of.folder, on_progress=on_progress))


def archive_of(job: StudyJob[Wanted, Taken]) -> Path:
    """Return the path of the archive that a finished job leaves."""
    return job.folder / "takeaway.zip"


def _export(wanted: Wanted, progress: Progress, folder: Path) -> Taken:
    made, stored = folder / "folder", kept_comparison(wanted.comparison)
    if stored is None:  # deleted meanwhile
        raise KeyError(wanted.comparison)
    taken = taken_from(stored, wanted, made, lambda phase, fraction: progress(phase or "files", fraction))
    zip_folder(made, folder / "takeaway.zip")
    workspace.remove_folder(made)
    workspace.require_room()
    return taken


EXPORTS = Study[Wanted, Taken](
    name="takeaways",
    summary="Export a retriever to a search engine or library.",
    versions=(_VERSION,),
    spec=Wanted,
    result=Taken,
    run_in=_export,
)
run_export = EXPORTS.run_folder

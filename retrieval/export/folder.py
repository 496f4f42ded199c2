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
from mrc_workbench.data.earlier_names import accept_earlier_names
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.questions.read import export_archive as written_set
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.studies import Study, StudyJob
from mrc_workbench.data.text.dictionary import format_dictionary as written_dictionary
from mrc_workbench.retrieval.comparison.compare import Comparison, build_context
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from mrc_workbench.retrieval.comparison.store import StoredComparison, get_comparison, load
from mrc_workbench.retrieval.export import DIFFERENCES_FILE, payloads
from mrc_workbench.retrieval.export.engines import NAMESPACE, engine_config, has_free_queries, is_weighted
from mrc_workbench.retrieval.export.fusion import (
    MEASURE,
    TRAITS,
    EngineMetrics,
    ExportTarget,
    Mix,
    SignalRankings,
    build_mix,
    measure_engine,
)
from mrc_workbench.retrieval.export.models import OnnxMetrics, write_models
from mrc_workbench.retrieval.export.signals import ExportError, LateTokens, Signal, Terms, plan_export
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, evaluate
from mrc_workbench.retrieval.report.exports import markdown_text
from mrc_workbench.retrieval.report.words import template

_DIFFERENCES = tomllib.loads(DIFFERENCES_FILE.read_text(encoding="utf-8"))["takeaway"]
_LIBRARIES = {ExportTarget.LANGCHAIN: "langchain-core", ExportTarget.LLAMAINDEX: "llama-index-core"}
_SCRIPTS = Path(__file__).parent / "scripts"
_BATCH_SIZE = 256  # passages written at a time
# of the progress: the metrics are known, the documents are written
_MEASURED_PROGRESS = 0.4
_WRITTEN_PROGRESS = 0.95
_DATASET_FILE = "questions.zip"
_VERSION = 1  # raise it when the same request makes another folder


def readme(
    name: str,
    engine: ExportTarget,
    evaluated: QuestionSet,
    metrics: Sequence[EngineMetrics],
    *,
    models: Sequence[OnnxMetrics] = (),
    mix: Mix | None = None,
) -> str:
    """Return the README as Markdown; every number in it is one of those given."""
    differences = [
        _DIFFERENCES[f"differs_{code}"].format(left_out=", ".join(map(markdown_text, engine_metrics.left_out)))
        for engine_metrics in metrics
        if engine_metrics.engine is engine
        for code in engine_metrics.differences
    ]
    text = template(Path(__file__).with_name("README.md.jinja")).render(
        text=markdown_text,
        name=name,
        engine=engine,
        library=_LIBRARIES.get(engine, ""),
        mix=mix,
        late=mix and any(isinstance(signal, LateTokens) for signal in mix.signals),
        is_weighted=mix and is_weighted(mix),
        free=mix and engine is ExportTarget.ELASTICSEARCH and has_free_queries(mix),
        address=TRAITS[engine].address if engine in TRAITS else "",
        differences=differences,
        metrics=metrics,
        models=models,
        megabyte=workspace.MEGABYTE,
        questions=f"{len(evaluated.questions):,}",
        passages=f"{len(evaluated.passages):,}",
        data=evaluated.name,
    )
    return re.sub("\n{3,}", "\n\n", text).rstrip() + "\n"


def export_retriever(
    comparison: Comparison,
    full_set: QuestionSet,
    name: str,
    engine: ExportTarget,
    folder: Path,
    *,
    base: Path | None = None,
    on_progress: Progress = lambda *_: None,
) -> tuple[list[EngineMetrics], list[OnnxMetrics]]:
    """Write a retriever of a comparison as a folder for an engine.

    Returns the metrics of every engine, and those of its models as ONNX, if these are written. `whole` is the set that
    the compared questions come from; paths of models start at `base`. Raises `ExportError` if the engine supports no
    part of it, it failed in the comparison, or the folder holds something else, and the errors of a model.
    """
    if folder.exists() and not (folder / payloads.MANIFEST).is_file() and any(folder.iterdir()):
        message = f"{folder} holds something else: name a folder that is not there yet, or one made before"
        raise ExportError("folder_in_use", message, folder=str(folder))
    if name not in (names := [result.name for result in comparison.results]):
        message = f"no retriever of this comparison is called {name!r}; there are: {', '.join(names)}"
        raise ExportError("retriever_failed", message, name=name)
    if name not in comparison.rankings:
        raise ExportError("retriever_failed", f"{name!r} found nothing in this comparison", name=name)
    on_progress("metrics", 0.0)
    evaluated = comparison.question_set
    context = build_context(comparison.experiment, evaluated, base, whole=full_set)
    try:
        signal_rankings = SignalRankings(
            plan_export(name, context), [question.text for question in evaluated.questions]
        )
    except ExportError:  # no engine knows any of its signals
        if engine in TRAITS:
            raise
        signal_rankings = None
    metrics = _measure_engines(
        comparison, signal_rankings, name, lambda fraction: on_progress("metrics", _MEASURED_PROGRESS * fraction)
    )
    mix = build_mix(engine, signal_rankings) if signal_rankings and engine in TRAITS else None
    models = list[OnnxMetrics]()
    with workspace.replacing_folder(folder, last=payloads.MANIFEST) as new:
        if mix:
            _write_engine(
                new, mix, evaluated, metrics, lambda fraction: on_progress("documents", _overall_progress(fraction))
            )
        elif engine is ExportTarget.ONNX:
            models = write_models(
                new, comparison, context, name, lambda fraction: on_progress("models", _overall_progress(fraction))
            )
            shutil.copyfile(_SCRIPTS / "encode.py", new / "encode.py")
            workspace.write_json(new / payloads.MANIFEST, {"engine": engine, "retriever": name})
        else:
            _write_library(new, engine, name, comparison, context)
        workspace.write_text(new / "README.md", readme(name, engine, evaluated, metrics, models=models, mix=mix))
        on_progress("files", _WRITTEN_PROGRESS)
    on_progress("", 1.0)
    return metrics, models


def _overall_progress(fraction: float) -> float:
    """Return how much of all work is done when so much of what follows the metrics is."""
    return _MEASURED_PROGRESS + (_WRITTEN_PROGRESS - _MEASURED_PROGRESS) * min(1.0, fraction)


def _measure_engines(
    comparison: Comparison, signal_rankings: SignalRankings | None, name: str, report: Callable[[float], None]
) -> list[EngineMetrics]:
    """Measure what every engine finds; a library calls this program's own search, which changes nothing."""
    metrics = list[EngineMetrics]()
    evaluated = comparison.question_set
    for number, engine in enumerate(TRAITS, start=1):
        with suppress(ExportError):  # another engine may know what this one does not
            if signal_rankings:
                metrics.append(
                    measure_engine(
                        build_mix(engine, signal_rankings), comparison.rankings[name], signal_rankings, evaluated
                    )
                )
        report(number / len(TRAITS))
    here = evaluate(comparison.rankings[name], evaluated, (DEFAULT_CUTOFF,)).means()[MEASURE]
    return metrics + [EngineMetrics(engine, here, here, 0.0, 0.0) for engine in ExportTarget if engine.is_library]


def _write_engine(
    folder: Path, mix: Mix, evaluated: QuestionSet, metrics: Sequence[EngineMetrics], report: Callable[[float], None]
) -> None:
    passages = evaluated.passages
    fields = [signal.field for signal in mix.signals]
    index = f"passages_{key_of(passages.fingerprint, fields, mix.weights)[:12]}"
    content = asdict(engine_config(mix, index))
    for path, text in content.pop("files").items():
        workspace.write_text(folder / path, text)
    engine_metrics = next(asdict(engine_metrics) for engine_metrics in metrics if engine_metrics.engine is mix.engine)
    header = {"engine": mix.engine, "address": TRAITS[mix.engine].address, "metrics": engine_metrics}
    workspace.write_json(folder / "engine.json", header | content)
    signals = [_write_signal(folder, signal, mix) for signal in mix.signals]
    workspace.write_json(folder / payloads.MANIFEST, {"engine": mix.engine, "signals": signals})
    shutil.copyfile(_SCRIPTS / "engine.py", folder / "engine.py")

    def rows() -> Iterator[dict[str, Any]]:
        for start in range(0, len(passages), _BATCH_SIZE):
            for document in payloads.documents(mix, passages, start, min(start + _BATCH_SIZE, len(passages))):
                id_ = f"id:{NAMESPACE}:{index}::{document['row']}"
                yield (
                    {"put": id_, "fields": document} if mix.engine is ExportTarget.VESPA else document
                )  # as `vespa feed`
            report((start + _BATCH_SIZE) / len(passages))

    _write_lines(folder / "documents.jsonl", rows())
    texts = [question.text for question in evaluated.questions]
    columns = {signal.field: payloads.question_values(mix.engine, signal, texts) for signal in mix.signals}

    def questions() -> Iterator[dict[str, Any]]:
        for row, question in enumerate(evaluated.questions):
            grades = {str(evaluated.row_of_passage[id_]): grade for id_, grade in question.grade_of.items()}
            values = {name: column[row] for name, column in columns.items()}
            yield {"id": question.id, "text": question.text, "relevant": grades, "values": values}

    _write_lines(folder / "questions.jsonl", questions())


def _write_signal(folder: Path, signal: Signal, mix: Mix) -> dict[str, Any]:
    """Write what a new question needs of a signal, and return how it is read."""
    field = signal.field
    values = {"field": signal.field, "kind": signal.kind}
    if isinstance(signal, Terms):
        analysis = signal.analysis
        dictionary = f"{field}_dictionary.txt" if analysis.dictionary else ""
        if analysis.dictionary:
            workspace.write_text(folder / dictionary, written_dictionary(analysis.dictionary))
        if mix.engine is ExportTarget.MILVUS:
            workspace.write_json(folder / payloads.TERMS.format(field), signal.tokens.vocabulary)
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
        np.save(folder / payloads.PROJECTION.format(field), signal.encoder.projection, allow_pickle=False)
    if signal.encoder.weights is not None:
        np.save(folder / payloads.QUESTION_WEIGHTS.format(field), signal.encoder.weights.by_token, allow_pickle=False)
    return values | {"layers": signal.layers}


def _write_library(
    folder: Path, engine: ExportTarget, name: str, comparison: Comparison, context: RetrieverContext
) -> None:
    """Write the experiment, the set and the models that exist only here: the program's own search finds the same."""
    specs = []
    for spec in comparison.experiment.with_dependencies([name]):
        source = context.source(dict(spec.local_spec)["model"]) if spec.needs_model else None
        if source is None or not source.folder or source.hub_id or source.packaged:
            specs.append(spec)  # a starter is made from the passages again
            continue
        model = f"model_{key_of(str(source.folder))[:12]}"
        if not (folder / model).exists():
            shutil.copytree(source.folder, folder / model)
        specs.append(spec.model_copy(update={"model": model}))
    experiment = comparison.experiment.model_copy(
        update={"data": _DATASET_FILE, "retriever": tuple(specs), "lab": None}
    )
    workspace.write_text(folder / "experiment.toml", write_experiment(experiment))
    (folder / _DATASET_FILE).write_bytes(written_set(context.full_set, Layout.BEIR))
    workspace.write_json(folder / payloads.MANIFEST, {"engine": engine, "retriever": name})
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
class ExportRequest:
    """A retriever of a stored comparison, by the comparison's key and its own name, and what it is exported for."""

    comparison: str
    retriever: str
    engine: ExportTarget


@dataclass(frozen=True)
class ExportResult:
    """What was measured while a folder was made: the metrics of each engine, and of each model as ONNX."""

    metrics: Sequence[EngineMetrics]
    models: Sequence[OnnxMetrics] = ()
    _earlier = accept_earlier_names({"figures": "metrics"})


def export_stored(
    stored: StoredComparison, request: ExportRequest, folder: Path, on_progress: Progress
) -> ExportResult:
    """Make the folder of a stored comparison's retriever. Raises as `export_retriever` does."""
    full_set = find(stored.reference, stored.folder)
    comparison = load(stored.folder, full_set)
    name = request.retriever
    engine = request.engine
    return ExportResult(
        *export_retriever(comparison, full_set, name, engine, folder, base=stored.folder, on_progress=on_progress)
    )


def archive_path(job: StudyJob[ExportRequest, ExportResult]) -> Path:
    """Return the path of the archive that a finished job leaves."""
    return job.folder / "takeaway.zip"


def _export(request: ExportRequest, progress: Progress, folder: Path) -> ExportResult:
    export_folder = folder / "folder"
    stored = get_comparison(request.comparison)
    if stored is None:  # deleted meanwhile
        raise KeyError(request.comparison)
    result = export_stored(stored, request, export_folder, lambda phase, fraction: progress(phase or "files", fraction))
    zip_folder(export_folder, folder / "takeaway.zip")
    workspace.remove_folder(export_folder)
    workspace.require_storage()
    return result


EXPORTS = Study[ExportRequest, ExportResult](
    name="takeaways",
    summary="Export a retriever to a search engine or library.",
    versions=(_VERSION,),
    spec=ExportRequest,
    result=ExportResult,
    run_in=_export,
)
run_export = EXPORTS.run_folder

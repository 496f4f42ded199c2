"""The exported folder: requests of an engine, its documents, questions that check it, and a README of the differences.

Files have fixed names, and the key of an index comes from its content: names of users never become paths. A job writes
the folder as an archive, which the page downloads.
"""

import json
import re
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data import workspace
from mrc_workbench.data.cache import key_of
from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.jobs.folder import Progress
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.questions.read import export_archive
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.studies import Study, StudyJob
from mrc_workbench.data.text.dictionary import format_dictionary
from mrc_workbench.retrieval.comparison.compare import Comparison, build_context
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.retrieval.comparison.spec import RetrieverContext
from mrc_workbench.retrieval.comparison.store import StoredComparison, get_comparison, load
from mrc_workbench.retrieval.export import DIFFERENCES_FILE, fusion, payloads
from mrc_workbench.retrieval.export.engines import NAMESPACE, engine_config, has_free_queries, is_weighted
from mrc_workbench.retrieval.export.fusion import EngineMetrics, ExportTarget, Mix, SignalRankings
from mrc_workbench.retrieval.export.models import OnnxMetrics, write_models
from mrc_workbench.retrieval.export.signals import ExportError, LateTokens, Signal, Terms, plan_export
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, evaluate
from mrc_workbench.retrieval.report.exports import markdown_text
from mrc_workbench.retrieval.report.words import template

_DIFFERENCES = tomllib.loads(DIFFERENCES_FILE.read_text(encoding="utf-8"))["takeaway"]
_LIBRARIES = {ExportTarget.LANGCHAIN: "langchain-core", ExportTarget.LLAMAINDEX: "llama-index-core"}
_SCRIPTS = Path(__file__).parent / "scripts"
_BATCH_SIZE = 256  # passages
_MEASURED_PROGRESS = 0.4  # when the metrics are known
_WRITTEN_PROGRESS = 0.95  # when the documents are written
_DATASET_FILE = "questions.zip"
_VERSION = 1  # raise it when the same request produces another folder


def readme(
    name: str,
    engine: ExportTarget,
    evaluated: QuestionSet,
    metrics: Sequence[EngineMetrics],
    *,
    models: Sequence[OnnxMetrics] = (),
    mix: Mix | None = None,
) -> str:
    """Return the README as Markdown."""
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
        address=fusion.TRAITS[engine].address if engine in fusion.TRAITS else "",
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

    Returns the metrics of every engine, and of its models if it writes them as ONNX. `full_set` is the whole dataset;
    paths of models start at `base`. Raises `ExportError` if the engine supports no component, if the retriever failed
    in the comparison, or if the folder contains other files, and the errors of a model.
    """
    _require_exportable(comparison, name, folder)
    on_progress("metrics", 0.0)
    evaluated = comparison.question_set
    context = build_context(comparison.experiment, evaluated, base, whole=full_set)
    questions = [question.text for question in evaluated.questions]
    signal_rankings: SignalRankings | None = None
    try:
        signal_rankings = SignalRankings(plan_export(name, context), questions)
    except ExportError:  # no engine supports any of its signals
        if engine in fusion.TRAITS:
            raise

    def report(phase: str, fraction: float) -> None:
        on_progress(phase, _MEASURED_PROGRESS + (_WRITTEN_PROGRESS - _MEASURED_PROGRESS) * min(1.0, fraction))

    metrics = _measure_engines(comparison, signal_rankings, name, on_progress)
    mix = fusion.build_mix(engine, signal_rankings) if signal_rankings and engine in fusion.TRAITS else None
    models = list[OnnxMetrics]()
    with workspace.replacing_folder(folder, last=payloads.MANIFEST) as new:
        if mix:
            _write_engine(new, mix, evaluated, metrics, partial(report, "documents"))
        elif engine is ExportTarget.ONNX:
            models = write_models(new, comparison, context, name, partial(report, "models"))
            shutil.copyfile(_SCRIPTS / "encode.py", new / "encode.py")
            workspace.write_json(new / payloads.MANIFEST, {"engine": engine, "retriever": name})
        else:
            _write_library(new, engine, name, comparison, context)
        workspace.write_text(new / "README.md", readme(name, engine, evaluated, metrics, models=models, mix=mix))
        on_progress("files", _WRITTEN_PROGRESS)
    on_progress("", 1.0)
    return metrics, models


def _require_exportable(comparison: Comparison, name: str, folder: Path) -> None:
    if folder.exists() and not (folder / payloads.MANIFEST).is_file() and any(folder.iterdir()):
        message = f"{folder} holds something else: name a folder that is not there yet, or one made before"
        raise ExportError("folder_in_use", message, folder=str(folder))
    if name not in (names := [result.name for result in comparison.results]):
        message = f"no retriever of this comparison is called {name!r}; there are: {', '.join(names)}"
        raise ExportError("retriever_failed", message, name=name)
    if name not in comparison.rankings:
        raise ExportError("retriever_failed", f"{name!r} found nothing in this comparison", name=name)


def _measure_engines(
    comparison: Comparison, signal_rankings: SignalRankings | None, name: str, on_progress: Progress
) -> list[EngineMetrics]:
    """Measure the fusion of every engine; libraries call the search of this program, with the same results."""
    metrics = []
    evaluated = comparison.question_set
    rankings = comparison.rankings[name]
    for number, engine in enumerate(fusion.TRAITS, start=1):
        with suppress(ExportError):  # other engines may support other signals
            if signal_rankings:
                metrics.append(
                    fusion.measure_engine(
                        fusion.build_mix(engine, signal_rankings), rankings, signal_rankings, evaluated
                    )
                )
        on_progress("metrics", _MEASURED_PROGRESS * number / len(fusion.TRAITS))
    score = evaluate(rankings, evaluated, (DEFAULT_CUTOFF,)).means()[fusion.MEASURE]
    return metrics + [EngineMetrics(engine, score, score, 0.0, 0.0) for engine in ExportTarget if engine.is_library]


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
    header = {"engine": mix.engine, "address": fusion.TRAITS[mix.engine].address, "metrics": engine_metrics}
    workspace.write_json(folder / "engine.json", header | content)
    signals = [_write_signal(folder, signal, mix) for signal in mix.signals]
    workspace.write_json(folder / payloads.MANIFEST, {"engine": mix.engine, "signals": signals})
    shutil.copyfile(_SCRIPTS / "engine.py", folder / "engine.py")

    def rows() -> Iterator[dict[str, Any]]:
        for start in range(0, len(passages), _BATCH_SIZE):
            for document in payloads.documents(mix, passages, start, min(start + _BATCH_SIZE, len(passages))):
                id_ = f"id:{NAMESPACE}:{index}::{document['row']}"
                is_vespa = mix.engine is ExportTarget.VESPA  # the form of `vespa feed`
                yield {"put": id_, "fields": document} if is_vespa else document
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
    """Write the files that encode new questions for a signal, and return its entry in the manifest."""
    field = signal.field
    values = {"field": signal.field, "kind": signal.kind}
    if isinstance(signal, Terms):
        analysis = signal.analysis
        dictionary = f"{field}_dictionary.txt" if analysis.dictionary else ""
        if analysis.dictionary:
            workspace.write_text(folder / dictionary, format_dictionary(analysis.dictionary))
        if mix.engine is ExportTarget.MILVUS:
            workspace.write_json(folder / payloads.TERMS.format(field), signal.tokens.vocabulary)
        options = {name: getattr(analysis, name) for name in ("analyzer", "compounds", "pairs", "stop_words")}
        return values | options | {"dictionary": dictionary}
    model = signal.model
    if not (signal.source.hub_id or signal.source.packaged):  # it exists on this machine only
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
    """Write the experiment, the dataset, and the models that exist on this machine only."""
    specs = []
    for spec in comparison.experiment.with_dependencies([name]):
        source = context.source(dict(spec.local_spec)["model"]) if spec.needs_model else None
        if source is None or not source.folder or source.hub_id or source.packaged:
            specs.append(spec)  # a starter is trained on the passages again
            continue
        model = f"model_{key_of(str(source.folder))[:12]}"
        if not (folder / model).exists():
            shutil.copytree(source.folder, folder / model)
        specs.append(spec.model_copy(update={"model": model}))
    changes = {"data": _DATASET_FILE, "retriever": tuple(specs), "lab": None}
    experiment = comparison.experiment.model_copy(update=changes)
    workspace.write_text(folder / "experiment.toml", write_experiment(experiment))
    (folder / _DATASET_FILE).write_bytes(export_archive(context.full_set, Layout.BEIR))
    workspace.write_json(folder / payloads.MANIFEST, {"engine": engine, "retriever": name})
    for script in ("plain.py", f"{engine.value}_retriever.py"):
        shutil.copyfile(_SCRIPTS / script, folder / script)


def _write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def zip_folder(folder: Path, archive: Path) -> None:
    """Write the files of a folder, without links, as a zip archive."""
    with workspace.replacing(archive) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                file.write(path, Path("takeaway", path.relative_to(folder)))


@dataclass(frozen=True)
class ExportRequest:
    """A retriever (by name) of a stored comparison (by key), and the target of its export."""

    comparison: str
    retriever: str
    engine: ExportTarget


@dataclass(frozen=True)
class ExportResult:
    """The metrics of each engine, and of each model as ONNX."""

    metrics: Sequence[EngineMetrics]
    models: Sequence[OnnxMetrics] = ()
    _earlier = accept_earlier_names({"figures": "metrics"})


def export_stored(
    stored: StoredComparison, request: ExportRequest, folder: Path, on_progress: Progress
) -> ExportResult:
    """Export a retriever of a stored comparison. Raises as `export_retriever` does."""
    full_set = find(stored.reference, stored.folder)
    exported = load(stored.folder, full_set), full_set, request.retriever, request.engine, folder
    return ExportResult(*export_retriever(*exported, base=stored.folder, on_progress=on_progress))


def archive_path(job: StudyJob[ExportRequest, ExportResult]) -> Path:
    """Return the path of a finished job's archive."""
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

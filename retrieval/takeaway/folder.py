"""The folder that is taken away: what an engine is told, its documents, questions to hold it against, and what differs.

Its page, README.md, tells how it is loaded, what is the same there, what differs, and by how much. A name that a person
gave never becomes a path: files are called by us, and an index by a key of what lies in it. The page downloads it as an
archive, which a job makes.
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
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import TypeAdapter

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.folders import replacing_folder
from mrc_workbench.data.jobs.folder import RequestJob
from mrc_workbench.data.jobs.work import Progress, request_carried_out
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.questions.report import written as written_set
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import find
from mrc_workbench.data.text.dictionary import written as written_dictionary
from mrc_workbench.data.workspace import MEGABYTE, remove_folder, replacing, require_room, write_json, write_text
from mrc_workbench.models.sources import ModelSource
from mrc_workbench.retrieval.comparison.compare import Comparison, materials_of
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.retrieval.comparison.spec import Materials, Spec
from mrc_workbench.retrieval.comparison.store import StoredComparison, kept_comparison, load
from mrc_workbench.retrieval.evaluation.measures import CUT, evaluate
from mrc_workbench.retrieval.report.exports import markdown_text
from mrc_workbench.retrieval.takeaway import WORDS
from mrc_workbench.retrieval.takeaway.asking import (
    PROJECTION,
    QUESTION_WEIGHTS,
    TERMS,
    TOLD,
    as_written,
    documents,
    of_questions,
)
from mrc_workbench.retrieval.takeaway.engines import has_free_queries, is_weighted, told_to
from mrc_workbench.retrieval.takeaway.fusion import MEASURE, TRAITS, Engine, Figure, Lists, Mix, figure_of, mix_of
from mrc_workbench.retrieval.takeaway.models import ModelFigure, write_models
from mrc_workbench.retrieval.takeaway.signals import LateTokens, Signal, TakeAwayError, Terms, plan_of

_TEMPLATE = "README.md.jinja"
_DIFFERENCES = tomllib.loads(WORDS.read_text(encoding="utf-8"))["takeaway"]
_LIBRARIES = {Engine.LANGCHAIN: "langchain-core", Engine.LLAMAINDEX: "llama-index-core"}
_WEIGHTED_RRF = "9.2 or newer (before that, `rrf` has no weights)"
_LOAD = "python engine.py load"


class Server(NamedTuple):
    """Where an engine answers by default, which version is needed, and the commands that load the folder."""

    address: str
    needs: str
    commands: str = _LOAD


SERVERS = {
    Engine.ELASTICSEARCH: Server("http://127.0.0.1:9200", "Elasticsearch."),  # see `elasticsearch_needs`
    Engine.OPENSEARCH: Server(
        "http://127.0.0.1:9200",
        "OpenSearch 3 or newer with its plugins for vectors and hybrid search, which its own image brings.",
    ),
    Engine.VESPA: Server(
        "http://127.0.0.1:8080",
        "Vespa 8. `application/` is deployed first, with Vespa's own command.",
        f"vespa deploy --wait 300 application\n{_LOAD}",
    ),
    Engine.WEAVIATE: Server(
        "http://127.0.0.1:8080",
        "Weaviate 1.25 or newer; it needs no module, as vectors come along. Vectors are not quantized, also where "
        "`DEFAULT_QUANTIZATION` is set (1.33 and newer).",
    ),
    Engine.MILVUS: Server("", "Milvus 2.4 or newer, or no server.", f"pip install pymilvus milvus-lite\n{_LOAD}"),
}


def readme(
    name: str,
    engine: Engine,
    asked: QuestionSet,
    figures: Sequence[Figure],
    *,
    models: Sequence[ModelFigure] = (),
    mix: Mix | None = None,
) -> str:
    """Return the README as Markdown; every figure in it is one of those given."""
    server = SERVERS.get(engine)
    own = next((one for one in figures if one.engine is engine), None)
    # Markdown, no HTML: `markdown_text` escapes what users named
    templates = Environment(  # noqa: S701
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    text = templates.get_template(_TEMPLATE).render(
        name=markdown_text(name),
        engine=engine,
        library=_LIBRARIES.get(engine, ""),
        needs=_needs(engine, mix),
        address=server.address if server else "",
        commands=server.commands if server else "",
        free=bool(mix and engine is Engine.ELASTICSEARCH and has_free_queries(mix)),
        differences=_differences(own) if own else [],
        figures=figures,
        models=models,
        model_table=_model_table(models),
        questions=f"{len(asked.questions):,}",
        passages=f"{len(asked.passages):,}",
        data=markdown_text(asked.name),
    )
    return re.sub("\n{3,}", "\n\n", text).rstrip() + "\n"


def _needs(engine: Engine, mix: Mix | None) -> str:
    if mix and engine is Engine.ELASTICSEARCH:
        return elasticsearch_needs(mix)
    if mix and engine is Engine.OPENSEARCH and _has_tokens(mix):
        return SERVERS[engine].needs.replace("OpenSearch 3 or newer", "OpenSearch 3.3 or newer")
    return SERVERS[engine].needs if engine in SERVERS else ""


def _has_tokens(mix: Mix) -> bool:
    return any(isinstance(signal, LateTokens) for signal in mix.signals)


def elasticsearch_needs(mix: Mix) -> str:
    """Return which version and licence of Elasticsearch the query of a mix needs."""
    if _has_tokens(mix):
        version = _WEIGHTED_RRF if mix.by_rank and is_weighted(mix) else "9.0 or newer"
        return (
            f"Elasticsearch {version}, with a trial or Enterprise licence: no other includes `rank_vectors`, the field "
            "of late interaction, which is a technical preview."
        )
    if len(mix.signals) == 1:
        return "Elasticsearch 8.16 or newer, with any licence."
    retriever, version = "linear", "8.18 or newer"
    if mix.by_rank:
        retriever = "rrf"
        version = _WEIGHTED_RRF if is_weighted(mix) else "8.16 or newer"
    return (
        f"Elasticsearch {version}. The retriever `{retriever}` is part of its trial and its paid licences; with the "
        "free Basic licence, or with 8.16 and newer, add `--free` to `check` and `ask`."
    )


def _differences(figure: Figure) -> list[str]:
    left_out = ", ".join(map(markdown_text, figure.left_out))
    return [_DIFFERENCES[f"differs_{code}"].format(left_out=left_out) for code in figure.differs]


def _model_table(models: Sequence[ModelFigure]) -> str:
    rows: list[tuple[str, Callable[[ModelFigure], str]]] = [
        ("model", lambda one: markdown_text(one.model)),
        ("lowest agreement, float", lambda one: f"{one.agreement:.6f}"),
        ("lowest agreement, 8 bits", lambda one: f"{one.agreement_int8:.4f}"),
        ("nDCG@10, torch", lambda one: f"{one.ndcg * 100:.2f}"),
        ("nDCG@10, float", lambda one: f"{one.ndcg_float * 100:.2f}"),
        ("nDCG@10, 8 bits", lambda one: f"{one.ndcg_int8 * 100:.2f}"),
        ("seconds, torch", lambda one: f"{one.seconds:.2f}"),
        ("seconds, float", lambda one: f"{one.seconds_float:.2f}"),
        ("seconds, 8 bits", lambda one: f"{one.seconds_int8:.2f}"),
        ("megabytes, float", lambda one: f"{one.bytes_float / MEGABYTE:,.0f}"),
        ("megabytes, 8 bits", lambda one: f"{one.bytes_int8 / MEGABYTE:,.0f}"),
    ]
    lines = ["| | " + " | ".join(f"{markdown_text(one.retriever)} ({one.place})" for one in models) + " |"]
    lines.append("|---" + "|---:" * len(models) + "|")
    lines += [f"| {label} | " + " | ".join(map(of, models)) + " |" for label, of in rows]
    return "\n".join(lines)


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


_VERSION = 1  # raise it when the same request makes another folder


@dataclass(frozen=True)
class Wanted:
    """A retriever of a kept comparison, by the comparison's key and its own name, and what it is taken away for."""

    comparison: str
    retriever: str
    engine: Engine


@dataclass(frozen=True)
class Taken:
    """What was measured while a folder was made: what each engine finds, and what each model says as ONNX."""

    figures: Sequence[Figure]
    models: Sequence[ModelFigure] = ()


class TakeAwayJob(RequestJob[Wanted]):
    """The job of one folder; what it is done with stands in its archive."""

    place, form, versions = "takeaways", TypeAdapter(Wanted), (_VERSION,)

    @property
    def archive(self) -> Path:
        return self.folder / "takeaway.zip"

    def taken(self) -> Taken:
        """Read what was measured. Raises `ValueError` where that is no such thing."""
        return _TAKEN.validate_python(self.read(self.result.name))


_TAKEN = TypeAdapter(Taken)


def taken_from(of: StoredComparison, wanted: Wanted, folder: Path, on_progress: Progress) -> Taken:
    """Make the folder of a kept comparison's retriever. Raises as `take_away` does."""
    whole = find(of.reference, of.folder)
    comparison = load(of.folder, whole)
    figures, models = take_away(
        comparison, whole, wanted.retriever, wanted.engine, folder, base=of.folder, on_progress=on_progress
    )
    return Taken(figures, models)


def carry_out_job(folder: Path) -> int:
    """Do what a job's folder asks for; returns a command's exit status."""
    job = TakeAwayJob(folder)

    def work(wanted: Wanted, tell: Progress) -> None:
        made, kept = folder / "folder", kept_comparison(wanted.comparison)
        if kept is None:  # deleted meanwhile
            raise KeyError(wanted.comparison)
        taken = taken_from(kept, wanted, made, lambda phase, share: tell(phase or "files", share))
        zip_folder(made, job.archive)
        remove_folder(made)
        require_room()
        job.write(job.result.name, _TAKEN.dump_python(taken, mode="json"))

    return request_carried_out(job, work)

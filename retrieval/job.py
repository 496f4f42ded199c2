"""Programs of other processes: the job of a comparison, `mrc encode`, and files that ship with the sample."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mrc_workbench.data.cache import remove_sample_arrays
from mrc_workbench.data.commands import choice_option, stop_message
from mrc_workbench.data.jobs.folder import JobHandedOver, Status, StopRequested, progress_writer, run_job_exclusively
from mrc_workbench.data.jobs.processes import PROGRAM, start_preloaded
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, find, read_entry
from mrc_workbench.data.terminal import end_progress_line, print_line, report_progress
from mrc_workbench.data.workspace import write_json
from mrc_workbench.models.encoders import BiEncoder, vectors_path
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.vectors import ProcessRank, StoredVectors, VectorBlocks, copy_vectors
from mrc_workbench.models.windows import WindowOptions, Windows
from mrc_workbench.retrieval.cli import format_comparison, print_failures
from mrc_workbench.retrieval.comparison import compare as comparing
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.pace import TimeEstimator
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext, Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, save_comparison

Model = Annotated[str, Parameter(help="a folder, a run, a hub id or starter")]


def run_comparison(folder: Path, /, *, rest: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Run the comparison of this folder: light retrievers at once, the `rest` in a process that loads the libraries."""
    job = ComparisonJob(folder)
    failure_status = 0
    has_remaining = False
    experiment = folder / job.study.spec_file
    seconds_left = job.status().seconds_left  # as the first process estimated it

    def work(began: Status) -> None:
        nonlocal failure_status, has_remaining
        if job.stop_requested:  # while this process started
            raise StopRequested
        pace = TimeEstimator(seconds_left)
        report = progress_writer(job, began, lambda: pace.seconds_left, lambda: pace.seconds_left_by_retriever)
        report("", 0.0)
        parsed = read_experiment(experiment)
        question_set = find(parsed.data, folder)
        options: dict[str, Any] = {"on_progress": report, "on_result": job.log_result, "estimator": pace}
        if not rest:
            has_remaining = comparing.search_model_free(parsed, question_set, base=folder, **options)
            if has_remaining:
                raise JobHandedOver
        comparison = comparing.compare(parsed, question_set, base=folder, **options)
        print_line(format_comparison(comparison))
        failure_status = print_failures(comparison)
        save_comparison(comparison, folder, comparing.provenance(comparison, question_set, folder))

    status = run_job_exclusively(job, work)
    if has_remaining and not job.stop_requested:
        arguments = ("internal", job.study.name, folder, "--rest")
        if process := start_preloaded(PROGRAM, *arguments, log=folder / "log.txt"):
            comparing.write_packaged_bases(read_experiment(experiment))  # while the other process imports its libraries
            process.wait()
            return 0 if job.done else 2
        return run_comparison(folder, rest=True)  # no process has imported the libraries yet
    return status or failure_status


def ship_sample() -> int:
    """Write the files that ship with the sample again, after the sample, the analyzer or the base changed."""
    ship(read_entry(CATALOG["sample"]).question_set)
    return 0


def ship(sample: QuestionSet) -> None:
    """Write the tokens, vectors and float32 rankings that ship with the sample. Raises `OSError`."""
    from mrc_workbench.data.text.analysis import ship
    from mrc_workbench.retrieval.lexical.bm25 import BM25Options

    questions = [question.text for question in sample.questions]
    texts = sample.passages.indexed_texts(title=BM25Options.title)
    analysis = BM25Options().analysis(texts)
    DEFAULT.write()  # before anything is removed: it may be missing
    for kind in ("tokens", "vectors", "token-vectors", "rankings"):
        remove_sample_arrays(kind)
    ship(analysis, questions)
    ship(analysis, texts)
    encoder = BiEncoder(find_model(DEFAULT.reference), texts)
    encoder.ship("question", questions)
    encoder.ship("passage", texts)
    dense = DenseSpec(name="shipped", model=DEFAULT.reference, windows=True)
    late = LateSpec(name="shipped", model=DEFAULT.reference, windows=True)
    exact = {"precision": Precision.FLOAT32}
    for spec in (dense, late):
        exact_retriever = _build_retriever(spec.model_copy(update=exact), sample)
        exact_retriever.search(questions, exact_retriever.depth)
        _build_retriever(spec, sample).store_as_sample(exact_retriever, questions)
    context = RetrieverContext(sample)
    title_lengths = sample.passages.title_lengths(title=late.title)
    exact_encoder = late.model_copy(update=exact).encoder(context)
    late.encoder(context).ship_passages(exact_encoder, context.texts(late.title), title_lengths)


def _build_retriever(spec: Spec, question_set: QuestionSet) -> CachedRetriever:
    retriever = comparing.build_context(Experiment(data="alone", retriever=(spec,)), question_set).retrievers[spec.name]
    if isinstance(retriever, Exception):
        raise retriever
    return retriever


def encode_command(
    *,
    data: Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")],
    model: Model,
    out: Annotated[Path, Parameter(help="folder for the vectors, shared by all processes")],
    precision: Annotated[Precision, choice_option(Precision)] = Precision.AUTO,
    title: Annotated[bool, Parameter(help="encode titles with the passages")] = True,
    windows: Annotated[bool, Parameter(help="encode all parts of long passages, not only the beginning")] = True,
) -> int:
    """Encode a corpus into vectors.

    Several processes under torchrun share the work. A second run continues.
    """

    def report(fraction: float) -> None:
        report_progress("encoding", fraction, is_total=False)  # of the passages, then of the questions

    with stop_message("Stopped. Finished blocks are stored: run the same command again to continue."):
        lines = encode(data, model, out, precision, title=title, windowed=windows, on_progress=report)
    end_progress_line()
    print_line("\n".join(lines))
    return 0


def encode(
    data: str,
    model: str,
    out: Path,
    precision: Precision = Precision.AUTO,
    *,
    title: bool = True,
    windowed: bool = True,
    on_progress: Callable[[float], None],
) -> list[str]:
    """Encode and store texts, each process its blocks; the first returns a summary. Raises `DataError` and others."""
    question_set = find(data, Path())
    process = ProcessRank.from_environment()
    corpus = question_set.passages.indexed_texts(title=title)
    encoder = _DistributedEncoder(find_model(model), corpus, precision=precision, on_progress=on_progress)
    encoder.process = process
    encoder.folder = out
    vectors = {
        "passages": encoder.encode_passages(corpus),
        "questions": encoder.encode_questions([question.text for question in question_set.questions]),
    }
    windows = Windows.empty()
    if windowed:
        title_lengths = question_set.passages.title_lengths(title=title)
        windows = encoder.windows_of(corpus, title_lengths, WindowOptions())
    if added := windows.texts(corpus):
        encoder.file_prefix = "windows"  # beside the passages as they are read
        vectors["windows"] = encoder.encode_passages(added)
    if process.rank:
        return []
    metadata = {
        "data": question_set.name,
        "data_fingerprint": question_set.fingerprint,
        "model": model,
        "model_fingerprint": encoder.fingerprint,
        "precision": precision,
        "title": title,
        "files": encoder.files,
        "ids": {name: [item.id for item in getattr(question_set, name)] for name in ("passages", "questions")},
        "windows": [[question_set.passages.ids[row], *window[1:]] for row, window in windows.added_windows()],
    }
    write_json(out / "encoding.json", metadata)
    return [
        f"{out / encoder.files[name]}: {len(rows):,} {name}, {rows.shape[1]} dimensions"
        for name, rows in vectors.items()
    ]


class _DistributedEncoder(BiEncoder):
    process: ProcessRank
    folder: Path
    file_prefix: str = ""  # if neither passages nor questions are encoded

    @cached_property
    def files(self) -> dict[str, str]:
        return {}

    def _load_or_compute(self, side: str, texts: Sequence[str], blocks: VectorBlocks) -> StoredVectors:
        key = self.key_of(side, texts)
        name = self.file_prefix or f"{side}s"
        path = self.folder / f"{name}-{key[:16]}.npy"  # another model's vectors may lie beside them
        self.files[name] = path.name
        vectors = blocks.load_or_compute(path, self.process)
        if not self.process.rank and path.is_file():
            copy_vectors(path, vectors_path(key))
        return vectors

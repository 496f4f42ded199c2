"""What processes beside the app run: the job of a comparison, `mrc encode`, and making the files of the sample.

The sample, which a new workspace opens with, comes with the tokens that BM25 searches and the vectors of the packaged
base: no user waits for an analyzer or an encoder before they have texts of their own; `make sample` makes both again.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.cache import forget_shipped
from mrc_workbench.data.commands import one_of, stop_message
from mrc_workbench.data.jobs.folder import AskedToStop, GoesOn, Status, carried_out_alone, progress_writer
from mrc_workbench.data.jobs.processes import PROGRAM, handed_over
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, find, read_entry
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import write_json
from mrc_workbench.models.encoders import BiEncoder, kept_at
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.vectors import Share, StoredVectors, VectorBlocks, copy_vectors
from mrc_workbench.models.windows import WindowOptions, Windows
from mrc_workbench.retrieval.cli import report_failures, table
from mrc_workbench.retrieval.comparison.compare import compare, materials_of, provenance, search_light, write_bases
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.pace import Pace
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials, Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, keep

Model = Annotated[str, Parameter(help="a folder, a run, a hub id or starter")]


def run_comparison(folder: Path, /, *, rest: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Run the comparison of this folder: light retrievers at once, the `rest` in a process that has the libraries."""
    job, reported, is_left = ComparisonJob(folder), 0, False
    experiment = folder / job.study.spec_file
    least = job.status().seconds_left  # as told by the process that began

    def work(began: Status) -> None:
        nonlocal reported, is_left
        if job.asked_to_stop:  # while this process was being started
            raise AskedToStop
        pace = Pace(least)
        report = progress_writer(job, began, lambda: pace.seconds_left, lambda: pace.parts_left)
        report("", 0.0)
        asked, base = read_experiment(experiment), folder
        found = find(asked.data, base)
        if not rest:
            is_left = search_light(asked, found, base=base, on_progress=report, on_result=job.note, pace=pace)
            if is_left:
                raise GoesOn
        comparison = compare(asked, found, base=base, on_progress=report, on_result=job.note, pace=pace)
        tell(table(comparison))
        reported = report_failures(comparison)
        keep(comparison, folder, provenance(comparison, found, base))

    status = carried_out_alone(job, work)
    if is_left and not job.asked_to_stop:
        words = ("internal", job.study.name, folder, "--rest")
        if process := handed_over(PROGRAM, *words, log=folder / "log.txt"):
            write_bases(read_experiment(experiment))  # while that one reads its libraries
            process.wait()
            return 0 if job.done else 2
        return run_comparison(folder, rest=True)  # nobody has read the libraries: they are read here
    return status or reported


def ship_sample() -> int:
    """Write the tokens and vectors that come with the sample, after it, the analyzer or the base has changed."""
    ship(read_entry(CATALOG["sample"]).question_set)
    return 0


def ship(sample: QuestionSet) -> None:
    """Write the tokens, vectors and float32 rankings of the sample that ship with it. Raises `OSError`."""
    from mrc_workbench.data.text.analysis import ship
    from mrc_workbench.retrieval.lexical.bm25 import BM25Options

    questions = [question.text for question in sample.questions]
    texts = sample.passages.indexed_texts(title=BM25Options.title)
    analysis = BM25Options().analysis(texts)
    DEFAULT.write()  # where it cannot be had, what came before stays
    for kind in ("tokens", "vectors", "token-vectors", "rankings"):
        forget_shipped(kind)
    ship(analysis, questions)
    ship(analysis, texts)
    encoder = BiEncoder(find_model(DEFAULT.reference), texts)
    encoder.ship("question", questions)
    encoder.ship("passage", texts)
    for of in (DenseSpec, LateSpec):
        spec = of(name="shipped", model=DEFAULT.reference, windows=True)
        exact = spec.model_copy(update={"precision": Precision.FLOAT32})
        usual, searched = (_alone(one, sample) for one in (spec, exact))
        searched.search(questions, searched.depth)
        usual.ship(searched, questions)
    late = LateSpec(name="shipped", model=DEFAULT.reference, windows=True)
    materials = Materials(sample)
    whole = late.model_copy(update={"precision": Precision.FLOAT32}).encoder(materials)
    late.encoder(materials).ship_passages(whole, materials.texts(late.title), sample.passages.heads(title=late.title))


def _alone(spec: Spec, question_set: QuestionSet) -> CachedRetriever:
    made = materials_of(Experiment(data="alone", retriever=(spec,)), question_set).made[spec.name]
    if isinstance(made, Exception):
        raise made
    return made


def encode_command(
    *,
    data: Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")],
    model: Model,
    out: Annotated[Path, Parameter(help="folder for the vectors, shared by all processes")],
    precision: Annotated[Precision, one_of(Precision)] = Precision.AUTO,
    title: Annotated[bool, Parameter(help="encode titles with the passages")] = True,
    windows: Annotated[bool, Parameter(help="encode all parts of long passages, not only the beginning")] = True,
) -> int:
    """Encode a corpus into vectors.

    Several processes under torchrun share the work. A second start continues.
    """

    def report(fraction: float) -> None:
        report_progress("encoding", fraction, is_total=False)  # of the passages, then of the questions

    with stop_message("Stopped. Finished blocks are kept: run the same command again to continue."):
        lines = encode(data, model, out, precision, title=title, windowed=windows, on_progress=report)
    end_progress_line()
    tell("\n".join(lines))
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
    """Encode and store passages and questions, each process its blocks; the first returns the paths it wrote.

    Raises `DataError`, `ModelError` and `OSError`.
    """
    question_set, share = find(data, Path()), Share.of_environment()
    corpus = question_set.passages.indexed_texts(title=title)
    encoder = _Sharing(find_model(model), corpus, precision=precision, on_progress=on_progress)
    encoder.share, encoder.folder = share, out
    vectors = {
        "passages": encoder.encode_passages(corpus),
        "questions": encoder.encode_questions([question.text for question in question_set.questions]),
    }
    windows = Windows.none()
    if windowed:
        heads = question_set.passages.heads(title=title)
        windows = encoder.windows_of(corpus, heads, WindowOptions())
    if added := windows.texts(corpus):
        encoder.named = "windows"  # beside the passages as they are read
        vectors["windows"] = encoder.encode_passages(added)
    if share.rank:
        return []
    told = {
        "data": question_set.name,
        "data_fingerprint": question_set.fingerprint,
        "model": model,
        "model_fingerprint": encoder.fingerprint,
        "precision": precision,
        "title": title,
        "files": encoder.files,
        "ids": {name: [one.id for one in getattr(question_set, name)] for name in ("passages", "questions")},
        "windows": [[question_set.passages.ids[row], *window[1:]] for row, window in windows.beside()],
    }
    write_json(out / "encoding.json", told)
    return [
        f"{out / encoder.files[name]}: {len(rows):,} {name}, {rows.shape[1]} dimensions"
        for name, rows in vectors.items()
    ]


class _Sharing(BiEncoder):
    share: Share
    folder: Path
    named: str = ""  # what is encoded, where it is neither passages nor questions

    @cached_property
    def files(self) -> dict[str, str]:
        return {}

    def _kept(self, side: str, texts: Sequence[str], blocks: VectorBlocks) -> StoredVectors:
        key, name = self.key_of(side, texts), self.named or f"{side}s"
        place = self.folder / f"{name}-{key[:16]}.npy"  # another model's vectors may lie beside them
        self.files[name] = place.name
        kept = blocks.kept(place, self.share)
        if not self.share.rank and place.is_file():
            copy_vectors(place, kept_at(key))
        return kept

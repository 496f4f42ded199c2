"""What the process of a comparison's job runs, and what comes with the sample.

The sample, which a new workspace opens with, brings the tokens that BM25 searches and the vectors of the packaged base:
nobody waits for an analyzer or an encoder before they have texts of their own; `make sample` makes both again.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.cache import forget_shipped
from mrc_workbench.data.jobs.folder import AskedToStop, GoesOn, Status
from mrc_workbench.data.jobs.processes import PROGRAM, handed_over
from mrc_workbench.data.jobs.work import carried_out_alone, progress_writer
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, find, read_entry
from mrc_workbench.data.terminal import tell
from mrc_workbench.models.encoders.bi_encoder import BiEncoder
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.precision import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.cli import report_failures, table
from mrc_workbench.retrieval.comparison.compare import compare, retrievers_of, search_light, write_bases
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.pace import Pace
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials, Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, keep, provenance


def run_comparison(folder: Path, /, *, rest: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Compare as the job in this folder: what needs no model at once, the rest in a process that has the libraries.

    `rest` says that another process has searched what needs no model.
    """
    job, reported, is_left = ComparisonJob(folder), 0, False
    experiment = folder / job.file
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
        words = ("internal", job.place, folder, "--rest")
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
    """Analyze the sample for BM25, encode and search it by the packaged base, and write what comes with it.

    What the base finds is computed in float32 and found again in whatever numbers a machine is quicker in. Raises
    `OSError`.
    """
    from mrc_workbench.data.text.analysis import ship
    from mrc_workbench.retrieval.lexical.bm25 import BM25Options

    questions = [question.text for question in sample.questions]
    texts = sample.passages.indexed_texts(title=BM25Options.title)
    analysis = BM25Options().analysis(texts)
    DEFAULT.write()  # where it cannot be had, what came before stays
    for kind in ("tokens", "vectors", "token-vectors", "rankings"):
        forget_shipped(kind)
    for asked in (questions, texts):
        ship(analysis, asked)
    encoder = BiEncoder(find_model(DEFAULT.reference), texts)
    encoder.ship("question", questions)
    encoder.ship("passage", texts)
    for of in (DenseSpec, LateSpec):
        spec = of(name="shipped", model=DEFAULT.reference, windows=True)
        exact = spec.model_copy(update={"precision": Precision.FLOAT32})
        usual, searched = (_alone(one, sample) for one in (spec, exact))
        searched.search(questions, searched.depth)
        usual.ship(searched, questions)
    _ship_token_vectors(sample)


def _ship_token_vectors(sample: QuestionSet) -> None:
    """Store the sample's token vectors with the sample, so that late interaction searches it without encoding it.

    They are the float32 model's, as the shipped rankings are. Raises `OSError`.
    """
    spec = LateSpec(name="shipped", model=DEFAULT.reference, windows=True)
    materials = Materials(sample)
    exact = spec.model_copy(update={"precision": Precision.FLOAT32}).encoder(materials)
    spec.encoder(materials).ship_passages(exact, materials.texts(spec.title), sample.passages.heads(title=spec.title))


def _alone(spec: Spec, question_set: QuestionSet) -> CachedRetriever:
    made = retrievers_of(Experiment(data="alone", retriever=(spec,)), question_set)[spec.name]
    if isinstance(made, Exception):
        raise made
    return made

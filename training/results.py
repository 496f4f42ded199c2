"""The results of a run: curves, advice, the model card, and the model as a zip or on a model hub."""

import json
import math
import os
import re
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionGenerator
from mrc_workbench.data.workspace import workspace, write_text
from mrc_workbench.models.files import TIMEOUT_SECONDS
from mrc_workbench.models.sources import STARTER, ModelSource, is_starter
from mrc_workbench.training.base import CARDS
from mrc_workbench.training.recipes import RECIPES, get_recipe
from mrc_workbench.training.runs import Run, TrainingPlan, count_rounds
from mrc_workbench.training.text_options import LANGUAGE_MODEL, READER

MAX_POINTS = 500
MEASURES = tuple(dict.fromkeys(name for recipe in RECIPES.values() for name in recipe.family.curves))
Points = list[tuple[int, float]]  # step and value


@dataclass(frozen=True)
class Curves:
    """The points of requested names (NaN if not finite), BM25's values, and points of other questions."""

    points: dict[str, Points]
    bm25: dict[str, float]
    comparison_points: dict[str, Points]


def read_curves(run: Run, names: Iterable[str]) -> Curves:
    """Read curves: `loss`, `learning_rate`, `grad_norm`, `examples_per_second`, or `MEASURES`, from the base on."""
    entries = run.progress()
    result = Curves({}, {}, {})
    for name in names:
        keys: tuple[str, ...] = (name,)
        comparison_keys: tuple[str, ...] = ("eval_loss",) if name == "loss" else ()
        if name in MEASURES:
            # the evaluator of earlier versions logged cosine_<measure>
            keys = (f"before_{name}", f"eval_validation_{name}", f"eval_validation_cosine_{name}")
            comparison_keys = (f"before_training_{name}", f"eval_training_{name}")
        result.points[name] = downsample(_logged_points(entries, *keys))
        result.comparison_points[name] = downsample(_logged_points(entries, *comparison_keys))
        if bm25 := _logged_points(entries, f"bm25_{name}"):
            result.bm25[name] = bm25[0][1]
    return result


def downsample(points: Sequence[tuple[int, float]], limit: int = MAX_POINTS) -> Points:
    """Return at most `limit` points, evenly spaced, including the first and the last."""
    if len(points) <= limit:
        return list(points)
    return [points[row] for row in np.linspace(0, len(points) - 1, limit).round().astype(int)]


def _logged_points(entries: list[dict[str, Any]], *keys: str) -> Points:
    values = [(entry.get("step"), entry[key]) for entry in entries for key in keys if key in entry]
    valid = [(step, value) for step, value in values if type(step) is int and isinstance(value, int | float)]
    return [(step, float(value) if math.isfinite(value) else math.nan) for step, value in valid]


class Advice(StrEnum):
    """A problem of a training, for which pages advise a change."""

    SATURATED = "saturated"  # the base was nearly perfect: these questions cannot show a gain
    READER_SATURATED = "reader_saturated"
    NOTHING_LEARNED = "nothing_learned"  # no gain even on training questions: larger steps, or more of them
    STARTER_NOTHING_LEARNED = "starter_nothing_learned"  # use a pretrained base
    NOT_GENERALIZED = "not_generalized"  # a gain only on training questions: more articles, not more epochs
    STARTER_NOT_GENERALIZED = "starter_not_generalized"  # a starter knows only the words of its passages
    MIXED_UNSURE = "mixed_unsure"  # a better reranker, but interpolated with BM25 not significantly better than BM25
    STARTER_MIXED_UNSURE = "starter_mixed_unsure"
    WORSE_THAN_BASE = "worse_than_base"  # significantly worse: smaller steps
    STILL_RISING = "still_rising"  # the last evaluation is the best: more epochs may help
    OVERFITTING = "overfitting"  # later steps were worse: more epochs will not help


def get_advice(plan: TrainingPlan, scores: dict[str, Any], measured: Points) -> Advice | None:
    """Return advice by the intervals of gains, and by the trend of `measured` validation points; or None."""
    sample = scores.get("training_sample") or {}
    gain = scores.get("gain") or {}
    if not gain or not sample.get("gain"):
        return None
    (low, high) = gain["interval"]
    (sample_low, _) = sample["gain"]["interval"]
    if high < 0:
        return Advice.WORSE_THAN_BASE
    starter = plan.options.base == STARTER
    if low <= 0:
        if scores["before"][gain["measure"]] >= 0.99:
            return Advice.READER_SATURATED if plan.kind == READER else Advice.SATURATED
        prefix = "STARTER_" if starter else ""
        return Advice[f"{prefix}NOT_GENERALIZED" if sample_low > 0 else f"{prefix}NOTHING_LEARNED"]
    mixed = scores.get("interpolated_gain")
    if mixed and mixed["interval"][0] <= 0:
        return Advice.STARTER_MIXED_UNSURE if starter else Advice.MIXED_UNSURE
    return _advise_by_trend(scores.get("best_step", 0), dict(measured))


def _advise_by_trend(best: int, steps: dict[int, float]) -> Advice | None:
    if best not in steps or len(steps) < 3:  # too few for a trend
        return None
    last = max(steps)
    if best == last:
        return Advice.STILL_RISING
    return Advice.OVERFITTING if steps[last] < steps[best] else None


def write_card(run: Run) -> None:
    """Write the README.md of a finished model from its run folder; names are escaped."""
    from mrc_workbench.retrieval.report.words import template  # imports the analysis of comparisons

    starter = is_starter(ModelSource(run.id, folder=run.model_folder))
    plan = run.plan()
    scores = run.scores()
    provenance = run.provenance()
    recipe = get_recipe(plan.kind)
    data = provenance.get("data", {})
    # the folders of this machine are private
    options = asdict(plan.options)
    options |= {name: _join_lines(_without_folders(text)) for name, text in options.items() if type(text) is str}
    measures = recipe.family.measures
    rows = {name: label for name, label in recipe.family.card_rows(plan.options, scores).items() if name in scores}
    card = template(Path(__file__).with_name("card.md.jinja"), keep_newline=True).render(
        metadata=_card_metadata(plan, scores, provenance, starter=starter),
        plan=plan,
        scores=scores,
        provenance=provenance,
        data=data,
        recipe=recipe,
        family=CARDS["families"][recipe.family.tag],
        tag=recipe.family.tag,
        starter=starter,
        loading=(starter and recipe.loading_starter) or recipe.loading,
        titled=getattr(plan.options, "title", False)
        and QuestionGenerator.TITLE not in data.get("synthetic_questions", {}),
        rounds=count_rounds(plan.options),
        options=json.dumps(options, ensure_ascii=False, indent=2),
        rows=rows,
        measures={
            measure: label for measure, label in measures.items() if any(measure in scores[name] for name in rows)
        },
        measure_of=lambda gain: measures.get(gain["measure"], gain["measure"]),
        points=_points,
        cell=_cell,
        identity=_identity,
        number="{:,}".format,
        escape_markdown=_escape_markdown,
        without_folders=_without_folders,
    )
    write_text(run.model_folder / "README.md", card)


def _card_metadata(plan: TrainingPlan, scores: dict[str, Any], provenance: dict[str, Any], *, starter: bool) -> str:
    """Return the YAML for the hub, which accepts only hub ids as a base and as datasets."""
    from huggingface_hub import EvalResult, ModelCardData

    base = provenance.get("base", {})
    data = provenance.get("data", {})
    family = get_recipe(plan.kind).family
    library = "transformers" if plan.kind in (READER, LANGUAGE_MODEL) else "sentence-transformers"
    on_hub = base["reference"] if "revision" in base else base.get("origin")
    return str(
        ModelCardData(
            language=data.get("language") or None,
            # the hub offers to load models of known libraries, but cannot load a starter
            library_name=None if starter else library,
            pipeline_tag=get_recipe(plan.kind).hub_task,
            tags=[plan.kind, family.tag, plan.options.objective.value],
            base_model=on_hub,
            base_model_relation="finetune" if on_hub else None,
            model_name=_join_lines(plan.name) or plan.kind,
            eval_results=[
                EvalResult(
                    task_type=get_recipe(plan.kind).hub_task,
                    dataset_type="unknown",
                    dataset_name=(_join_lines(plan.data_name) or "unknown")
                    + (" (synthetic questions)" if "synthetic_questions" in data else ""),
                    dataset_split="validation",
                    metric_type=measure,
                    metric_name=family.measures[measure],
                    metric_value=round(value, 4),
                )
                for measure, value in scores.get("after", {}).items()
                if measure in family.measures
            ]
            or None,
        )
    )


def _points(gain: dict[str, Any]) -> str:
    low, high = gain["interval"]
    return f"{100 * gain['difference']:+.2f} points [{100 * low:+.2f}, {100 * high:+.2f}]"


def _cell(value: float | None, interval: list[float] | None) -> str:
    if value is None:
        return ""
    interval_text = f" [{100 * interval[0]:.2f}, {100 * interval[1]:.2f}]" if interval else ""
    return f"{100 * value:.2f}{interval_text}"


def _identity(model: dict[str, str]) -> str:
    return next((f", {name} `{model[name]}`" for name in ("revision", "fingerprint") if name in model), "")


def _without_folders(reference: str) -> str:
    """Return a hub id (at most one slash) unchanged, and only the last name of a path."""
    parts = [part for part in re.split(r"[/\\]", reference) if part]
    return reference if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", reference) or not parts else parts[-1]


def _escape_markdown(text: str) -> str:
    """Escape user text for Markdown, in one line: CommonMark allows a backslash before any punctuation."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", _join_lines(text))


def _join_lines(text: str) -> str:
    visible = "".join(character for character in text if character.isprintable() or character.isspace())
    return " ".join(visible.split())


def zip_model(run: Run) -> BufferedReader:
    """Return the run's model as an open zip, deleted once closed. Raises `OSError` if the disk is full."""
    with tempfile.TemporaryFile(dir=workspace(), suffix=".zip") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:  # weights do not compress
            for path in sorted(run.model_folder.rglob("*")):
                archive.write(path, f"{run.id}/{path.relative_to(run.model_folder).as_posix()}")
        file.seek(0)
        return os.fdopen(os.dup(file.fileno()), "rb")  # stays open after the temporary file is closed


class PushError(Failure):
    """A model cannot be pushed.

    Codes: `bad_name`, `bad_token`, `no_permission`, `not_finished`, `public` (the repository exists and is public, but
    a private one was requested), `refused` (the message has the hub's reason) and `unreachable`.
    """


def push(run: Run, repository: str, token: str, *, private: bool = True) -> str:
    """Push a model to `repository` (`name` or `owner/name`), which is created; returns its URL. Raises `PushError`."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    repository = repository.strip()
    token = token.strip()
    require_finished(run)
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise PushError("bad_name", str(error)) from None
    if not re.fullmatch(r"[!-~]+", token):  # the error message of the request would contain another one
        raise PushError("bad_token", "a token is one word of letters, digits and punctuation")
    try:
        return _upload(run, repository, token, private=private)
    except PushError:
        raise
    except Exception as error:
        # without its cause: a library's error may contain the request, and so the token
        raise _push_error(error, repository, token) from None


def require_finished(run: Run) -> None:
    """Raise `PushError` (`not_finished`) if a run has no finished model."""
    if run.status().state is not State.DONE or not run.model_folder.is_dir():
        raise PushError("not_finished", f"{run.id} has no finished model")


def _upload(run: Run, repository: str, token: str, *, private: bool) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=token)
    with suppress(HfHubHTTPError):  # an answer; the next call checks the token
        # later calls would wait for minutes if the hub does not answer
        api.model_info(repository, timeout=TIMEOUT_SECONDS)
    address = api.create_repo(repository, private=private, exist_ok=True)
    if private and not api.model_info(address.repo_id, timeout=TIMEOUT_SECONDS).private:
        raise PushError("public", f"{address.repo_id} exists and is public; nothing was pushed")
    api.upload_folder(
        repo_id=address.repo_id,
        folder_path=run.model_folder,
        # only files of models
        allow_patterns=["*.safetensors", "*.json", "*.txt", "*.md", "*.model", "*.jinja"],
        commit_message=f"Trained with the MRC Retrieval Workbench: {run.id}",
    )
    return str(address)


def _push_error(error: Exception, repository: str, token: str) -> PushError:
    from huggingface_hub.errors import HfHubHTTPError, HTTPError

    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status == 401:
            return PushError("bad_token", "the hub rejected this token")
        if status == 403:
            return PushError("no_permission", f"this token has no permission to write to {repository}")
        answer = error.server_message or type(error).__name__
        return PushError("refused", f"the hub answered {status}: {answer}".replace(token, "***"))
    if isinstance(error, HTTPError | ConnectionError):
        return PushError("unreachable", "the hub cannot be reached; the push may be incomplete, so push again later")
    return PushError("refused", f"{type(error).__name__}: {error}".replace(token, "***"))

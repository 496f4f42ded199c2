"""Retrievers that a person added to a question set, kept in the workspace: a reload or another browser has them too.

Each is a file of its own in `workspace/added/<key of the set>/`, so that two who add at once do not undo each other.
The runs they brought lie beside them, under the hash of their content.
"""

import hashlib
import logging
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from data.cache import key_of
from data.limits import require_room
from data.records import QuestionSet
from data.workspace import read_json, replacing, workspace, write_json
from retrieval.comparison.experiment import of_kind
from retrieval.comparison.kinds.first_stage import RunSpec
from retrieval.comparison.spec import Spec
from retrieval.trec import read_run

logger = logging.getLogger(__name__)


def added(fingerprint: str) -> list[Spec]:
    """Return what was added to the set of this fingerprint, the first added first; what cannot be read is left out.

    The path of a run is absolute, and a retriever stands after those it wraps, where they were added too.
    """
    found = [(read_json(path), path) for path in _folder(fingerprint).glob("*.json")]
    found.sort(key=lambda entry: (str(entry[0].get("added")), entry[1].name))
    specs = [_spec(content, path) for content, path in found]
    return [spec for spec in specs if spec is not None]


def add(fingerprint: str, spec: Spec) -> None:
    """Add a retriever to the set; one of the same name takes the place of the one there was."""
    path = _path(fingerprint, spec.name)
    since = read_json(path).get("added") or datetime.now(UTC).isoformat()
    write_json(path, {"added": since, "retriever": spec.model_dump(mode="json")})


def add_run(question_set: QuestionSet, name: str, content: bytes, reference: str) -> None:
    """Add the rankings of a TREC run, `content`, as a retriever; `reference` is what a person calls the file.

    Raises `RunError` where it cannot be used, `LimitError` where there is no room for it, and adds nothing.
    """
    path = _folder(question_set.fingerprint) / f"{hashlib.sha256(content).hexdigest()}.trec"
    if path.is_file():  # left as it is, so that what was found with it stays kept
        read_run(path, question_set, reference)
    else:
        with replacing(path) as new:
            new.write_bytes(content)
            read_run(new, question_set, reference)
            require_room()
    add(question_set.fingerprint, RunSpec(name=name, path=path.name))


def remove(fingerprint: str, name: str) -> None:
    """Remove a retriever, all that wrap it, and the run it brought where no other uses it."""
    gone = {name}
    for spec in added(fingerprint):
        if gone.intersection(spec.parts):
            gone.add(spec.name)
    for one in gone:
        _path(fingerprint, one).unlink(missing_ok=True)
    used = {Path(spec.path).name for spec in added(fingerprint) if isinstance(spec, RunSpec)}
    for run in _folder(fingerprint).glob("*.trec"):
        if run.name not in used:
            run.unlink(missing_ok=True)


def _folder(fingerprint: str) -> Path:
    return workspace() / "added" / key_of(fingerprint)[:16]


def _path(fingerprint: str, name: str) -> Path:
    return _folder(fingerprint) / f"{key_of(name)[:16]}.json"


def _spec(content: dict[str, object], path: Path) -> Spec | None:
    try:
        spec = of_kind(content.get("retriever"))
    except ValidationError as error:
        logger.warning("an added retriever cannot be read: %s: %s", path, error)
        return None
    return spec.model_copy(update={"path": str(path.parent / spec.path)}) if isinstance(spec, RunSpec) else spec

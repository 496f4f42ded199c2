"""Question sets by name: those of the catalog, and those kept in the workspace, one folder each."""

import hashlib
import os
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path

import pyarrow as pa

from data.apart.reading import read_file_apart
from data.collection import Collection, KeptSet
from data.formats.opening import file_content
from data.formats.tables import shown
from data.pairs.reading import PairOptions, PairReading, read_pairs
from data.pairs.records import PairKind
from data.passages import Passages, open_passages, write_passages
from data.problems import DataError, ProblemCode
from data.read import Reading, read
from data.records import QuestionSet, open_questions, write_questions
from data.split import Part
from data.workspace import read_json, replacing, require_few_passages, workspace, write_json

TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 16

Progress = Callable[[int, int], None]  # bytes so far, bytes in all


@dataclass(frozen=True)
class CatalogEntry:
    """One public set. `address` is its publisher's; a set without one comes with the program, as `path`."""

    id: str
    title: str
    licence: str
    path: Path  # a file name where it is downloaded
    address: str = ""
    sha256: str = ""
    size: int = 0  # bytes


CATALOG: dict[str, CatalogEntry] = {
    entry.id: entry
    for entry in (
        CatalogEntry(
            id="sample",
            title="Korean sample",
            licence="CC0 1.0",
            path=Path(__file__).parent / "sample" / "korean.json",
        ),
        CatalogEntry(
            id="korquad-v1-dev",
            title="KorQuAD 1.0 dev",
            licence="CC BY-ND 2.0 KR",
            path=Path("KorQuAD_v1.0_dev.json"),
            address="https://korquad.github.io/dataset/KorQuAD_v1.0_dev.json",
            sha256="25ffeb51e6c51ec02c071b60a10188e10005c144110f0d876b26079d80a35bdf",
            size=3_881_058,
        ),
    )
}


def read_entry(entry: CatalogEntry, on_progress: Progress | None = None) -> Reading:
    """Obtain and read a set of the catalog; it is named by its title. Raises `DataError`."""
    reading = read(obtain(entry, on_progress), entry.path.name)
    return replace(reading, question_set=replace(reading.question_set, name=entry.title))


def obtain(entry: CatalogEntry, on_progress: Progress | None = None) -> bytes:
    """Return the bytes of an entry's file, its checksum verified.

    Looked for in the folder `MRC_DATA` names, then among the workspace's downloads, else downloaded from its
    publisher and kept there. Raises `DataError` where the download fails or is not the known file.
    """
    if not entry.address:
        return file_content(entry.path).whole
    kept = workspace() / "downloads" / entry.path.name
    folder = os.environ.get("MRC_DATA")
    for path in ([Path(folder) / entry.path.name] if folder else []) + [kept]:
        with suppress(OSError):
            if _is_known(content := path.read_bytes(), entry):
                return content
    content = _download(entry, on_progress)
    with replacing(kept) as new:
        new.write_bytes(content)
    return content


def _is_known(content: bytes, entry: CatalogEntry) -> bool:
    return hashlib.sha256(content).hexdigest() == entry.sha256


def _download(entry: CatalogEntry, on_progress: Progress | None) -> bytes:
    content = bytearray()
    try:
        # The address is the catalog's own, never a user's.
        with urllib.request.urlopen(entry.address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
            while len(content) <= entry.size and (chunk := response.read(_CHUNK_BYTES)):
                content += chunk
                if on_progress is not None:
                    on_progress(min(len(content), entry.size), entry.size)
    except (OSError, HTTPException, ValueError) as error:
        reason = shown(str(getattr(error, "reason", None) or error), 200)
        raise DataError.of(
            ProblemCode.DOWNLOAD_FAILED, title=entry.title, address=entry.address, reason=reason
        ) from error
    if not _is_known(bytes(content), entry):
        raise DataError.of(
            ProblemCode.ALTERED_DOWNLOAD,
            title=entry.title,
            address=entry.address,
            size=f"{len(content):,}",
            expected=entry.sha256[:12],
            found=hashlib.sha256(content).hexdigest()[:12],
        )
    return bytes(content)


_PAIR_SAMPLES = Path(__file__).parent / "pairs" / "sample"
_KORNLU = "https://raw.githubusercontent.com/kakaobrain/KorNLUDatasets/master/"
_KLUE = "https://raw.githubusercontent.com/KLUE-benchmark/KLUE/main/klue_benchmark/"
_BY_SA = "CC BY-SA 4.0"


@dataclass(frozen=True)
class PairEntry:
    """One public set: its files, and how they are read. One without an address comes with the program."""

    id: str
    title: str
    licence: str
    files: tuple[CatalogEntry, ...]
    options: PairOptions

    @property
    def size(self) -> int:
        """Bytes to be downloaded."""
        return sum(file.size for file in self.files)


def _file(title: str, name: str, address: str, sha256: str, size: int) -> CatalogEntry:
    return CatalogEntry(name, title, _BY_SA, Path(name), address, sha256, size)


PAIR_CATALOG: dict[str, PairEntry] = {
    entry.id: entry
    for entry in (
        PairEntry(
            id="sample-sts",
            title="Korean sample, similarity",
            licence="CC0 1.0",
            files=(
                CatalogEntry("sample-sts", "Korean sample, similarity", "CC0 1.0", _PAIR_SAMPLES / "korean_sts.tsv"),
            ),
            options=PairOptions(kind=PairKind.SCORED, scale=(0, 5)),
        ),
        PairEntry(
            id="sample-nli",
            title="Korean sample, inference",
            licence="CC0 1.0",
            files=(
                CatalogEntry("sample-nli", "Korean sample, inference", "CC0 1.0", _PAIR_SAMPLES / "korean_nli.tsv"),
            ),
            options=PairOptions(kind=PairKind.LABELLED),
        ),
        PairEntry(
            id="korsts",
            title="KorSTS",
            licence=_BY_SA,
            files=(
                _file(
                    "KorSTS train",
                    "korsts_train.tsv",
                    _KORNLU + "KorSTS/sts-train.tsv",
                    "b5aaa7f957d6ff46f4b6834a8b0f024a9234a6eefe9289aed66746b4533da3b8",
                    1_046_952,
                ),
                _file(
                    "KorSTS dev",
                    "korsts_dev.tsv",
                    _KORNLU + "KorSTS/sts-dev.tsv",
                    "d835b65b424401fbcce6be28a78159df8d61f5b19977ea7a0b83b8cb6105f393",
                    307_276,
                ),
                _file(
                    "KorSTS test",
                    "korsts_test.tsv",
                    _KORNLU + "KorSTS/sts-test.tsv",
                    "13f83a3440d9db52d134eb40303ce021b03264aa338fbf2871c8786ce04d2105",
                    249_596,
                ),
            ),
            options=PairOptions(kind=PairKind.SCORED, scale=(0, 5), parts=(Part.TRAIN, Part.VALIDATION, Part.TEST)),
        ),
        PairEntry(
            id="kornli-xnli",
            title="KorNLI, its XNLI dev and test",
            licence=_BY_SA,
            files=(
                _file(
                    "KorNLI dev",
                    "kornli_xnli_dev.tsv",
                    _KORNLU + "KorNLI/xnli.dev.ko.tsv",
                    "821fb1c1c2e538ac2724a6132da36ffa379eb9a542ceb89243b3cf711377382c",
                    511_383,
                ),
                _file(
                    "KorNLI test",
                    "kornli_xnli_test.tsv",
                    _KORNLU + "KorNLI/xnli.test.ko.tsv",
                    "0db53cf8e182283a0d0404ec3fe1b15d1e29236d23d22082dc20d43067254b3e",
                    1_032_430,
                ),
            ),
            options=PairOptions(kind=PairKind.LABELLED, parts=(Part.VALIDATION, Part.TEST)),
        ),
        PairEntry(
            id="klue-sts-dev",
            title="KLUE-STS dev",
            licence=_BY_SA,
            files=(
                _file(
                    "KLUE-STS dev",
                    "klue_sts_dev.json",
                    _KLUE + "klue-sts-v1.1/klue-sts-v1.1_dev.json",
                    "b6a0ae0c370e21687f7eef0fdea872a328bb2ecbdb020c546cb870d28606bf80",
                    454_638,
                ),
            ),
            options=PairOptions(kind=PairKind.SCORED, scale=(0, 5), parts=(Part.VALIDATION,)),
        ),
        PairEntry(
            id="klue-nli-dev",
            title="KLUE-NLI dev",
            licence=_BY_SA,
            files=(
                _file(
                    "KLUE-NLI dev",
                    "klue_nli_dev.json",
                    _KLUE + "klue-nli-v1.1/klue-nli-v1.1_dev.json",
                    "0699db82be17766b26e199864e6260443e17ec6e91d1870e876419e388f245b1",
                    1_498_298,
                ),
            ),
            options=PairOptions(kind=PairKind.LABELLED, parts=(Part.VALIDATION,)),
        ),
    )
}


def read_pair_entry(entry: PairEntry, on_progress: Progress | None = None) -> PairReading:
    """Obtain the files of a set of the catalog and read them; it is named by its title. Raises `DataError`."""
    reading = read_pairs(obtain_files(entry, on_progress), entry.options)
    return replace(reading, pairs=replace(reading.pairs, name=entry.title))


def obtain_files(entry: PairEntry, on_progress: Progress | None = None) -> list[tuple[bytes, str]]:
    """Return the content of the files of a set of the catalog, each with its name. Raises `DataError`.

    `on_progress` is told the bytes of all files so far, and those of the set.
    """
    files, before = [], 0
    for file in entry.files:
        files.append((obtain(file, _within(entry, before, on_progress)), file.path.name))
        before += file.size
    return files


def _within(entry: PairEntry, before: int, on_progress: Progress | None) -> Progress | None:
    """Progress of one file as that of the whole set."""
    if on_progress is None:
        return None
    return lambda done, _: on_progress(before + done, entry.size)


@dataclass(frozen=True, kw_only=True)
class StoredSet(KeptSet):
    """One kept question set. `made` counts the questions that were made of passages."""

    passages: int
    questions: int
    made: int = 0


_SETS = Collection("datasets", StoredSet)
_LAST_USED = "last_used.json"


def keep(question_set: QuestionSet, *, source: str = "") -> StoredSet:
    """Keep a question set in the workspace; the same content is kept once, under its newest name.

    Raises `LimitError` where it is more than the user may keep; nothing of it is kept then.
    """
    require_few_passages(len(question_set.passages))
    kept = StoredSet(
        key=question_set.fingerprint[:16],
        name=question_set.name,
        source=source,
        passages=len(question_set.passages),
        questions=len(question_set.questions),
        fingerprint=question_set.fingerprint,
        created=datetime.now(UTC).isoformat(),
        made=sum(question_set.made.values()),
    )
    with _SETS.keeping(kept) as folder:
        write_passages(folder, question_set.passages)
        write_questions(folder, question_set.questions)
    return kept


def stored() -> list[StoredSet]:
    """Return the kept sets, the newest first, and then those of the shelf that are not among them.

    A folder that cannot be read is passed over.
    """
    return _SETS.stored()


def damaged() -> list[str]:
    """Return the keys of the sets whose `set.json` cannot be read."""
    return _SETS.damaged()


def load(key: str) -> QuestionSet:
    """Load a kept set. Raises `DataError` where there is none, or its content has changed since."""
    kept = _known(key)
    folder = _SETS.folder(key)
    try:
        question_set = QuestionSet(kept.name, open_passages(folder), open_questions(folder))
        changed = question_set.fingerprint != kept.fingerprint
    except (OSError, TypeError, ValueError, KeyError, pa.ArrowException) as error:
        reason = str(error).split("\n")[0][:200]
        raise DataError.of(ProblemCode.BROKEN_SET, key=key, reason=reason) from error
    if changed:
        raise DataError.of(ProblemCode.BROKEN_SET, key=key, reason="its content is not what was kept")
    return question_set


def passages_of(key: str) -> Passages:
    """Open the passages of a kept set alone. Raises `DataError` as `load` does."""
    return open_passages(_SETS.folder(_known(key).key))


def remove(key: str) -> None:
    """Remove a kept set, readable or not; one of the shelf is none. Raises `DataError` where there is none."""
    if not _SETS.remove(key):
        raise _unknown(key)


def note_used(key: str) -> None:
    """Note that a set is the one in use. A note that cannot be written stops nobody: it is a convenience."""
    with suppress(OSError):
        write_json(workspace() / _LAST_USED, {"set": key})


def last_used() -> str:
    """Return the key that was noted last, empty where none can be read; its set may be gone."""
    return str(read_json(workspace() / _LAST_USED).get("set", ""))


def find(reference: str, base: Path | None = None) -> QuestionSet:
    """Return the set a person names: a file (its path from `base`), a catalog id, a stored key or name.

    Raises `DataError`, which lists what exists where nothing has that name.
    """
    path = (base or Path.cwd()) / reference
    if reference and os.path.isfile(path):  # noqa: PTH113 - a name may be too long for the file system
        return read_file_apart(path).question_set
    if reference in CATALOG:
        return read_entry(CATALOG[reference]).question_set
    for kept in stored():
        if reference in (kept.key, kept.name):
            return load(kept.key)
    raise _unknown(reference)


def _known(key: str) -> StoredSet:
    kept = _SETS.known(key)
    if kept is None:
        raise _unknown(key)
    return kept


def _unknown(reference: str) -> DataError:
    known = [*CATALOG, *(f"{kept.name} ({kept.key})" for kept in stored())]
    return DataError.of(ProblemCode.UNKNOWN_SET, reference=shown(reference, 80), known=", ".join(known))

"""`mrc encode`: the vectors of a corpus as files, by one process or by several of several machines."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mrc_workbench.data.commands import one_of, stop_message
from mrc_workbench.data.store import find
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import write_json
from mrc_workbench.models.encoders.bi_encoder import BiEncoder, kept_at
from mrc_workbench.models.encoders.vector_blocks import Share, StoredVectors, VectorBlocks, copy_vectors
from mrc_workbench.models.precision import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.windows import WindowOptions, Windows

Model = Annotated[str, Parameter(help="a folder, a run, a hub id or starter")]


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
    """Encode passages and questions, each process its blocks; the first assembles them and returns what it wrote.

    It also keeps them in the workspace, where a comparison finds them. Raises `DataError`, `ModelError` and `OSError`
    where data, model or folder cannot be used.
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
    """Encodes what falls to this process, into a folder that all share."""

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

"""The public sets of pairs known here; their files are got as those of question sets are."""

from dataclasses import dataclass, replace
from pathlib import Path

from data.catalog import CatalogEntry, Progress, obtain
from data.pairs.reading import PairOptions, PairReading, read_pairs
from data.pairs.records import PairKind
from data.split import Part

_SAMPLE = Path(__file__).parent / "sample"
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
            files=(CatalogEntry("sample-sts", "Korean sample, similarity", "CC0 1.0", _SAMPLE / "korean_sts.tsv"),),
            options=PairOptions(kind=PairKind.SCORED, scale=(0, 5)),
        ),
        PairEntry(
            id="sample-nli",
            title="Korean sample, inference",
            licence="CC0 1.0",
            files=(CatalogEntry("sample-nli", "Korean sample, inference", "CC0 1.0", _SAMPLE / "korean_nli.tsv"),),
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

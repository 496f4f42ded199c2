"""The file of four-bit weights, against one written by hand."""

import struct
from pathlib import Path

import numpy as np
import pytest

from models.quantized import LayoutError, Measures, Pieces, read

PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁물", "은", "<mask>"]
SCORES = [0.0, 0.0, 0.0, 0.0, -1.5, -2.25, 0.0]
FOURS = [(7 * place + 3) % 16 for place in range(64)]  # two blocks
SCALES = (0.5, -0.125)
PLAIN = [1.5, -2.0, 3.25]


def written(folder: Path, *, magic: bytes = b"E5S1", version: int = 1, block: int = 32) -> Path:
    texts = [piece.encode() for piece in PIECES]
    bounds = np.cumsum([0, *map(len, texts)])
    head = magic + struct.pack("<I7ifi", version, 32, 1, 2, 64, 9, 16, 2, 1e-12, block)
    head += struct.pack("<5iQ", len(texts), 0, 2, 1, 3, int(bounds[-1]))
    head += bounds.astype("<u4").tobytes() + np.array(SCORES, "<f4").tobytes() + b"".join(texts)
    entries = struct.pack("<IB", ord("ﬁ"), 2) + struct.pack("<2I", ord("f"), ord("i")) + struct.pack("<IB", 9, 0)
    head += struct.pack("<iI", 2, len(entries)) + entries
    blocks = b""
    for number, scale in enumerate(SCALES):
        fours = FOURS[32 * number : 32 * number + 32]
        blocks += struct.pack("<e", scale) + bytes(fours[j] | fours[j + 16] << 4 for j in range(16))
    listed = [(b"matrix", 1, 64, blocks), (b"plain", 0, 3, np.array(PLAIN, "<f4").tobytes())]
    place = len(head) + 4 + sum(2 + len(name) + 21 for name, *_ in listed)
    table = struct.pack("<i", len(listed))
    for name, kind, count, content in listed:
        table += struct.pack("<H", len(name)) + name + struct.pack("<BIQQ", kind, count, place, len(content))
        place += len(content)
    path = folder / "small.bin"
    path.write_bytes(head + table + b"".join(content for *_, content in listed))
    return path


def test_everything_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = read(written(tmp_path))
    assert model.measures == Measures(32, 1, 2, 64, 9, 16, 2, pytest.approx(1e-12))
    assert model.pieces == Pieces(PIECES, SCORES, begin=0, end=2, pad=1, unknown=3)
    assert model.mapped == {"ﬁ": "fi", "\t": ""}
    assert model.tensors == ["matrix", "plain"]
    assert model.tensor("plain").tolist() == PLAIN
    expected = [SCALES[place // 32] * (four - 8) for place, four in enumerate(FOURS)]
    assert model.tensor("matrix").tolist() == expected
    with pytest.raises(KeyError):
        model.tensor("another")


@pytest.mark.parametrize("other", [{"magic": b"GGUF"}, {"version": 2}, {"block": 64}])
def test_another_layout_is_refused(tmp_path: Path, other: dict[str, object]) -> None:
    with pytest.raises(LayoutError, match=r"small\.bin"):
        read(written(tmp_path, **other))  # type: ignore[arg-type]

"""Puts what was measured where it is read: between two marks of README.md."""

from pathlib import Path

_README = Path(__file__).parent.parent / "README.md"


def put(name: str, lines: list[str]) -> None:
    """Replace what stands between the marks `<!-- bench: NAME -->` and `<!-- /bench -->`; without marks, do nothing."""
    text = _README.read_text(encoding="utf-8")
    before, mark, rest = text.partition(f"<!-- bench: {name} -->\n")
    if mark:
        after = rest[rest.index("<!-- /bench -->") :]
        _README.write_text(before + mark + "\n".join(lines) + "\n" + after, encoding="utf-8")

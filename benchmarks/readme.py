"""Puts what was measured where it is read: between two marks of README.md or of a page of docs."""

from data.workspace import PROJECT


def put(name: str, lines: list[str]) -> None:
    """Replace what stands between the marks `<!-- bench: NAME -->` and `<!-- /bench -->`; without marks, do nothing."""
    for page in (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        before, mark, rest = text.partition(f"<!-- bench: {name} -->\n")
        if mark:
            after = rest[rest.index("<!-- /bench -->") :]
            page.write_text(before + mark + "\n".join(lines) + "\n" + after, encoding="utf-8")

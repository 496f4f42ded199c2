"""Count private words in names, class names with two meanings, packed assignments and inverted sentences.

    python benchmarks/wording.py [--root CHECKOUT] [--files WORD] [--lower]

`tests/test_wording.py` compares the counts with the limits in `tests/wording.json`, which only decrease: `--lower` sets
each limit to the current count if that is smaller.
"""

import argparse
import ast
import io
import json
import keyword
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

LIMITS = Path("tests", "wording.json")
PRODUCT = ("mrc_workbench", "data", "models", "retrieval", "training", "labs", "workbench")
CODE = (*PRODUCT, "benchmarks", "tests", "docs", "examples")
# Words that names should not contain, and the terms to use instead
WORDS: Mapping[str, str] = {
    "told": "details, message, metadata",
    "tell": "report, log",
    "tells": "reports, logs",
    "teller": "report_progress",
    "said": "message, text",
    "asked": "queries, request, evaluated",
    "found": "results, hits, matches, rows",
    "kept": "stored, cached",
    "one": "the thing itself: question, spec, row",
    "shown": "displayed",
    "drawn": "rendered, sampled",
    "chosen": "selected",
    "picked": "selected",
    "wanted": "selected, requested",
    "place": "index, position, path, container",
    "places": "indices, positions, paths",
    "figure": "metric, score, interval",
    "figures": "metrics, scores",
    "lesson": "training query",
    "lessons": "training queries",
    "taught": "fitted",
    "teaches": "labels",
    "busy": "running",
    "carry": "run",
    "carried": "run",
    "apart": "subprocess",
    "gathering": "builder",
    "assembly": "builder",
    "material": "training data",
    "materials": "context",
    "rehearsal": "dry run",
    "letters": "characters",
    "heads": "title lengths",
    "usual": "default",
    "made": "synthetic, created",
    "maker": "generator",
    "halves": "components",
    "turned": "reversed",
}
# Patterns of inverted or indirect sentences in comments, docstrings and documents
SENTENCES: Mapping[str, str] = {
    "what is": r"\bwhat (?:is|was|are|were|has|it|they|this|that)\b",
    "is told": r"\b(?:is|are|was|were|be|been) (?:told|said|asked|kept|found)\b",
    "whose, whoever": r"\b(?:whoever|nobody|somebody|whatever)\b",
    "of its own": r"\bof (?:its|their|his|one's) own\b",
    "where there is none": r"\bwhere (?:there|it|they|one|that) (?:is|are|has|have|was)\b",
    "nothing": r"\bnothing (?:is|was|of|but|that|here|else)\b",
    "alone": r"\balone\b",
    "inverted": r"(?:^|[.;:] )(?:Of|What|Whose|Which|Where) [^.?]{0,60}\b(?:is|are|has|have|was|were)\b[^?.]*\.",
}


def python_files(root: Path, rooms: tuple[str, ...] = CODE) -> Iterator[Path]:
    """Yield `app.py` and the Python files of the packages, in a fixed order."""
    yield root / "app.py"
    for room in rooms:
        yield from sorted((root / room).rglob("*.py"))


def words_of(name: str) -> list[str]:
    """Split an identifier at underscores and capitals: `KeptRuns_of` -> kept, runs, of."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


class PythonSource:
    """The identifiers, comments, docstrings and definitions of a Python source, with repetitions."""

    def __init__(self, text: str) -> None:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        nodes = list(ast.walk(ast.parse(text)))
        names = [token.string for token in tokens if token.type == tokenize.NAME]
        comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented)]
        functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
        self.identifiers = [name for name in names if not keyword.iskeyword(name)]
        self.prose = comments + docstrings
        self.packed_assignments = sum(map(is_packed_assignment, nodes))
        self.classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
        self.tests = [name for name in functions if name.startswith("test_")]


def is_packed_assignment(node: ast.AST) -> bool:
    """Whether a statement assigns several values to several names: `a, b = 1, 2`."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
    )


def sources(root: Path) -> dict[str, PythonSource]:
    """Return the sources of a checkout by path."""
    return {
        path.relative_to(root).as_posix(): PythonSource(path.read_text(encoding="utf-8")) for path in python_files(root)
    }


def ambiguous_classes(read: Mapping[str, PythonSource]) -> dict[str, list[str]]:
    """Return the class names that several modules of the product define, with these modules."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path, source in read.items():
        if path.startswith(PRODUCT):
            for name in set(source.classes):
                modules[name].append(path)
    return {name: paths for name, paths in sorted(modules.items()) if len(paths) > 1}


def documents(root: Path) -> Iterator[Path]:
    """Yield the paths of the English documents."""
    yield from (root / "README.md", root / "CONTRIBUTING.md")
    yield from sorted(path for path in (root / "docs").rglob("*.md") if not path.name.endswith(".ko.md"))


def counts(root: Path, read: Mapping[str, PythonSource] | None = None) -> dict[str, dict[str, int]]:
    """Return the counts: `names` by word, `sentences` by pattern, and `code` of single habits."""
    read = read or sources(root)
    names = Counter(name for source in read.values() for name in source.identifiers)
    words: Counter[str] = Counter()
    for name, count in names.items():
        for word in words_of(name):
            words[word] += count
    sentences: Counter[str] = Counter()
    for source in read.values():
        count_sentences(sentences, source.prose)
    count_sentences(sentences, [path.read_text(encoding="utf-8") for path in documents(root)])
    tests = [name for source in read.values() for name in source.tests]
    return {
        "names": {word: words[word] for word in WORDS},
        "sentences": {name: sentences[name] for name in SENTENCES},
        "code": {
            "packed assignments": sum(source.packed_assignments for source in read.values()),
            "tests named test_what_": sum(name.startswith("test_what_") for name in tests),
            "class names with two meanings": len(ambiguous_classes(read)),
        },
    }


def count_sentences(counter: Counter[str], texts: Iterable[str]) -> None:
    """Add the matches of each pattern in the texts to a counter."""
    for text in texts:
        for name, pattern in SENTENCES.items():
            counter[name] += len(re.findall(pattern, text, re.IGNORECASE if name != "inverted" else re.MULTILINE))


def lower_limits(root: Path) -> None:
    """Set each limit to the current count if that is smaller, or if there is no limit yet."""
    path = root / LIMITS
    limits = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    lowered = {
        group: {name: min(count, limits.get(group, {}).get(name, count)) for name, count in current.items()}
        for group, current in counts(root).items()
    }
    path.write_text(json.dumps(lowered, indent=1) + "\n", encoding="utf-8")


def print_uses(root: Path, word: str) -> None:
    """Print the files that use a word in names, most uses first."""
    uses: Counter[str] = Counter()
    for path, source in sources(root).items():
        names = [name for name in source.identifiers if word in words_of(name)]
        uses[f"{path}: {', '.join(sorted(set(names)))}"] = len(names)
    for text, count in uses.most_common():
        if count:
            print(count, text)


def main() -> int:
    """Print the counts as JSON, print the uses of a word, or lower the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--files", metavar="WORD")
    parser.add_argument("--lower", action="store_true")
    options = parser.parse_args()
    root = options.root.resolve()
    if options.files:
        print_uses(root, options.files)
    elif options.lower:
        lower_limits(root)
    else:
        read = sources(root)
        print(json.dumps({**counts(root, read), "classes": ambiguous_classes(read)}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

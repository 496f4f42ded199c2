"""Words for a terminal: texts of a person's files and of others reach it, and none of them may command it."""

import re
import sys

# control characters but tab and line break, and the marks that turn the direction of writing
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Return text with each character that a terminal would obey written as its number, which JSON reads back."""
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def tell(text: object, *, error: bool = False) -> None:
    """Print a line, to the standard output or as an error."""
    stream = sys.stderr if error else sys.stdout
    stream.write(harmless(str(text)) + "\n")
    stream.flush()


def tell_progress(name: str, share: float) -> None:
    """Write who is at work and how much of all work is done, 0 to 1, over what stood in the line; to people alone."""
    if name and sys.stderr.isatty():
        sys.stderr.write(f"\r{share:4.0%}  {harmless(name)}\033[K" + ("\n" if share >= 1 else ""))
        sys.stderr.flush()

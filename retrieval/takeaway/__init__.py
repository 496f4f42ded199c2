"""Taking a retriever away: a folder with which an engine searches the same, and what it does otherwise as a figure."""

from pathlib import Path

DIFFERENCES_FILE = Path(__file__).with_name("differs.toml")

"""Exports of a retriever: a folder with which an engine or a library runs the same search."""

from pathlib import Path

DIFFERENCES_FILE = Path(__file__).with_name("differences.toml")

"""What machine and which versions something was computed with."""

import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from data.workspace import PROJECT


def versions(libraries: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python and of those of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for library in libraries:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Return what this machine computes with. GPUs are those torch sees, none where nothing needed torch."""
    torch = sys.modules.get("torch")
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        told = ""
    named = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    return {
        "system": platform.platform(),
        "processor": named[1].strip() if named else platform.processor() or platform.machine(),
        "physical_cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory": psutil.virtual_memory().total,  # bytes
        "gpus": [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())] if torch else [],
    }


def commit() -> str:
    """Return this project's git commit, with `-dirty` where files differ from it; empty where it is no checkout."""
    if not (PROJECT / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip()

"""What is made of a text once: of several processes that want it, one makes it, and the others wait for that."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from data.seal import is_sound, sealing
from language.tokenizers.material import OnProgress

_SECONDS_OF_WAITING = 0.5  # before a wish to stop is heard


def made_once(folder: Path, make: Callable[[Path], None], on_progress: OnProgress | None) -> None:
    """Have a folder made and sealed, unless it is there and sound.

    While another process makes it, `on_progress` is told that nothing is done yet.
    """
    if is_sound(folder):
        return
    with _turn(folder, on_progress):
        if is_sound(folder):
            return
        for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed: it may be gigabytes
            shutil.rmtree(left)
        with sealing(folder) as new:
            make(new)


@contextmanager
def _turn(folder: Path, on_progress: OnProgress | None) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_suffix(".lock"))
    while not lock.is_locked:
        try:
            lock.acquire(timeout=_SECONDS_OF_WAITING)
        except Timeout:
            if on_progress:
                on_progress(0.0)
    try:
        yield
    finally:
        lock.release()

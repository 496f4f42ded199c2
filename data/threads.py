"""How the threads of numerical libraries wait for each other."""

import os


def let_idle_threads_sleep() -> None:
    """Let OpenMP threads sleep at a barrier instead of spinning, unless the environment says otherwise.

    Spinning threads take the processor from the thread they wait for as soon as anything else runs on the machine: a
    training step then takes up to ten times as long. Call this before torch is imported: it is read once.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

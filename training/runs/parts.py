"""Jobs that are made of trainings: each of these is a run of its own, whose folder is named by that of the whole."""

from dataclasses import dataclass

from training.runs.runs import Run, find_run


@dataclass(frozen=True, order=True)
class Whole(Run):
    """A search for settings or an ablation, and the runs that are its parts, `workspace/runs/<id>-<name>/`."""

    def part(self, name: str) -> Run:
        """Return the run of a part; it may not have been begun, or be deleted."""
        return Run(self.folder.parent / f"{self.id}-{name}")

    def parts(self) -> list[Run]:
        """Return the runs of the parts that have begun, in the order of their numbers."""
        begun = [
            run for path in self.folder.parent.glob(f"{self.id}-*/run.json") if (run := find_run(path.parent.name))
        ]
        return sorted(begun, key=lambda run: (_number(run), run.id))

    def ask_to_stop(self) -> None:
        """Let it end soon, and the part that is at work with it."""
        super().ask_to_stop()
        for part in self.parts():
            if part.status().at_work:
                part.ask_to_stop()

    def delete(self) -> None:
        """Remove the folder and its parts'. Raises `ValueError` while it, or one of them, runs."""
        parts = self.parts()
        if any(part.status().at_work for part in parts):
            raise ValueError("a running part must be stopped before the whole is deleted")
        super().delete()
        for part in parts:
            part.delete()


def _number(run: Run) -> int:
    trial = run.plan().trial
    return trial.number if trial else 0

"""The commands that every study has: `mrc NAME run`, `list`, `show`, `report`, `rename` and `delete`."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from mrc_workbench.data.commands import AsJson, ExitStatus, commands_of, stop_message
from mrc_workbench.data.store import find
from mrc_workbench.data.studies.study import Spec, Study, StudyJob
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.data.workspace import read_json

Key = Annotated[str, Parameter(help="key or name of a stored result")]
Out = Annotated[Path | None, Parameter(help="folder for report.md and a CSV file of each table")]


def study_commands(study: Study[Any, Any]) -> App:
    """Return the group of commands of a study; the options of `run` are the fields of its spec."""
    commands = commands_of(study.name, study.summary)

    def run(*, spec: Any, out: Out = None, as_json: AsJson = False) -> int:
        job = study.job(spec, *_dataset(spec))
        if not job.done:
            job.write_spec(spec)
            with stop_message("Stopped. Run the same command again to continue."):
                if status := job.run(report_progress):
                    return status
            end_progress_line()
        return _show(job, out, as_json=as_json)

    run.__doc__ = study.summary
    run.__annotations__["spec"] = Annotated[study.spec, Parameter(name="*")]
    commands.command(run)

    @commands.command(name="list")
    def list_command(*, as_json: AsJson = False) -> int:
        """List the stored results, the newest first."""
        jobs = study.stored()
        if as_json:
            rows = [{"key": job.id, "name": job.name, "made": job.made, "folder": str(job.folder)} for job in jobs]
            tell(json.dumps(rows, ensure_ascii=False, indent=2))
            return ExitStatus.DONE
        if not jobs:
            tell(f"No results yet: `mrc {study.name} run` makes one.", error=True)
        for job in jobs:
            tell(f"{job.id}  {job.made[:16]}  {job.name}")
        return ExitStatus.DONE

    @commands.command
    def show(key: Key, /, *, as_json: AsJson = False) -> int:
        """Show a stored result."""
        return _show(study.find(key), None, as_json=as_json)

    @commands.command(name="report")
    def report_command(key: Key, /, *, out: Annotated[Path, Parameter(help="folder to write")]) -> int:
        """Write a report and a CSV file of each table."""
        return _export(study.find(key), out)

    @commands.command
    def rename(key: Key, name: Annotated[str, Parameter(help="new name")], /) -> int:
        """Rename a stored result."""
        study.find(key).rename(name)
        tell(f"renamed {key}")
        return ExitStatus.DONE

    @commands.command
    def delete(key: Key, /) -> int:
        """Delete a stored result."""
        study.find(key).delete()
        tell(f"deleted {key}")
        return ExitStatus.DONE

    return commands


def _dataset(spec: Any) -> tuple[str, ...]:
    """Return the fingerprint of the dataset that a spec names in its field `data`; empty if it has none."""
    reference = getattr(spec, "data", "")
    return (find(reference).fingerprint,) if reference else ()


def _show(job: StudyJob[Spec, Any], out: Path | None, *, as_json: bool) -> int:
    result = job.load()
    if as_json:
        tell(json.dumps(read_json(job.result), ensure_ascii=False, indent=2))
    else:
        for table in job.study.tables:
            tell("\n".join(table.lines(result)))
    return _export(job, out) if out else ExitStatus.DONE


def _export(job: StudyJob[Spec, Any], out: Path) -> int:
    job.export(out)
    tell(f"written to {out}")
    return ExitStatus.DONE

"""The commands of `batch`. `--help` reads only this module of the package."""

from pathlib import Path
from typing import Annotated, Literal

from acp_launch.batch.trees import clean_batch
from acp_launch.cli.verb import Argument, Group, Json, Option, Trust, Yes, read_descriptor

app = Group("Run many tasks over many profiles.")

File = Annotated[Path, Argument("FILE", "A batch: tasks × profiles.")]
Directory = Annotated[Path, Argument("DIR", "The directory of a batch.")]
OrLatest = Annotated[Path | None, Argument("[DIR]", "The directory of a batch; by default the latest here.")]
Out = Annotated[Path | None, Option("--out", "The batch's directory; by default below .acp-launch/batches.", "DIR")]


@app.verb()
def check(file: File, as_json: Json = False) -> int:
    """Check a batch and its profiles; start nothing."""
    from acp_launch.batch.freeze import check_file

    return check_file(file, as_json=as_json)


@app.verb()
def prepare(file: File, out: Out = None, trust: Trust = False) -> int:
    """Freeze a batch and print the ids of its items; start nothing."""
    from acp_launch.batch.freeze import prepare_file

    return prepare_file(file, out, trust=trust)


@app.verb()
def run(
    file: Annotated[Path | None, Argument("[FILE]", "A batch: tasks × profiles.")] = None,
    resume: Annotated[Path | None, Option("--resume", "Go on with the batch of this directory.", "DIR")] = None,
    out: Out = None,
    jobs: Annotated[int | None, Option("--jobs -j", "How many items run at once.", "N")] = None,
    engine: Annotated[
        str | None, Option("--engine", "dask: a cluster of this machine; dask:ADDRESS: that of a scheduler.", "ENGINE")
    ] = None,
    only: Annotated[tuple[str, ...], Option("--only", "Run only this item. Repeatable.", "ID")] = (),
    again: Annotated[
        tuple[str, ...], Option("--again", "Start items of this outcome again. Repeatable.", "OUTCOME")
    ] = (),
    failures: Annotated[int | None, Option("--failures", "Stop after this many items that did not pass.", "N")] = None,
    cost: Annotated[
        tuple[str, ...], Option("--cost", "Stop at this known cost: USD=50. Repeatable.", "CURRENCY=AMOUNT")
    ] = (),
    dry_run: Annotated[bool, Option("--dry-run", "Check everything and list the items; start nothing.")] = False,
    output: Annotated[Literal["text", "json"], Option("--output -o", "The output format.")] = "text",
    trust: Trust = False,
) -> int:
    """Run a batch, or go on with one."""
    from acp_launch.batch.submit import RunOptions, run_batch

    return run_batch(RunOptions(file, resume, out, jobs, engine, only, again, failures, cost, dry_run, output, trust))


@app.verb()
def item(
    directory: Directory,
    id: Annotated[str | None, Argument("[ID]", "An item.")] = None,
    index: Annotated[int | None, Option("--index", "The item of this number, from 0.", "N")] = None,
    attempt: Annotated[int | None, Option("--attempt", "Do nothing if this attempt has a record already.", "N")] = None,
    trust: Trust = False,
    lifeline: Annotated[
        int | None,
        Option("--lifeline", "End as by SIGTERM at the end of file of this descriptor.", "FD", read_descriptor),
    ] = None,
) -> int:
    """Run the attempt of an item that is due, in this process: for every engine."""
    from acp_launch.batch.item import run_item

    return run_item(directory, id, index, attempt, lifeline, trust=trust)


@app.verb()
def status(directory: OrLatest = None, as_json: Json = False) -> int:
    """Show how far a batch is."""
    from acp_launch.batch.submit import show_status

    return show_status(directory or _find_latest(), as_json=as_json)


def _find_latest() -> Path:
    from acp_launch.batch.freeze import find_latest

    return find_latest()


@app.verb()
def cancel(directory: Directory) -> int:
    """Cancel all running items of a batch, and start no others."""
    from acp_launch.batch.submit import cancel_batch

    return cancel_batch(directory)


@app.verb()
def clean(
    directory: Directory,
    dry_run: Annotated[bool, Option("--dry-run", "List the trees; remove nothing.")] = False,
    yes: Yes = False,
    trust: Trust = False,
) -> int:
    """Remove the worktrees and clones that are kept, except those of running items."""
    return clean_batch(directory, yes=yes, dry_run=dry_run, trust=trust)


@app.verb()
def report(
    directory: OrLatest = None,
    html: Annotated[Path | None, Option("--html", "Write a page that needs nothing else.", "FILE")] = None,
    markdown: Annotated[bool, Option("--markdown", "Print Markdown, for a CI's summary.")] = False,
    junit: Annotated[Path | None, Option("--junit", "Write JUnit XML.", "FILE")] = None,
) -> int:
    """Report on a batch: by default a summary as text."""
    from acp_launch.batch.report import make_report

    return make_report(directory or _find_latest(), html=html, markdown=markdown, junit=junit)

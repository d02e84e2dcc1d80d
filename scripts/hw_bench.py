"""Runs tests and benchmarks on a Trainium instance of AWS: python scripts/hw_bench.py run --help

The script starts or launches an EC2 instance, runs the checked-out commit on it, fetches the
results, and stops the instance, whatever happens in between. docs/hardware.md leads from an AWS
account to the page of results.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from remote import instance as ec2
from remote import needs, options, pace, record
from remote.aws import Aws
from remote.dry_run import INSTANCE_TYPE, Calls, Rehearsal, rehearsed
from remote.failure import Failure, Interrupted, Kind
from remote.job import Job
from remote.page import write_page
from remote.record import Record
from remote.revision import Revision, checked_out, recorded
from remote.run import judge, release, run_sets, stop_job
from remote.screen import LOG, Screen
from remote.sets import SETS

ROOT = Path(__file__).resolve().parent.parent

app = typer.Typer(add_completion=False, no_args_is_help=True)


def named(folder: str) -> Path:
    """Returns the folder that --out names; raises BadParameter for an empty name."""
    if not folder:
        raise typer.BadParameter("the name is empty, allowed is the name of a folder")
    return Path(folder)


Out = Annotated[
    Path, typer.Option(parser=named, help="The folder of the results and of the job's record.")
]
OUT = Path("hardware")


@app.callback()
def main() -> None:
    """Run tests and benchmarks on a Trainium instance of AWS."""


@app.command()
def run(
    instance: Annotated[
        str | None, typer.Option(help="The id of an existing instance to run on.")
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(help="A tag, KEY=VALUE, that exactly one existing instance carries."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(help="The name or id of a launch template. The run launches an instance."),
    ] = None,
    names: Annotated[
        str | None,
        typer.Option(
            "--sets",
            "--set",
            help=f"The sets to run, with commas between: {', '.join(SETS)}. Default: all.",
        ),
    ] = None,
    out: Out = OUT,
    hours: Annotated[
        float | None, typer.Option(help=f"The time limit of the job. Default: {options.HOURS:g}.")
    ] = None,
    venv: Annotated[
        str | None,
        typer.Option(
            help="The Python environment on the instance, such as the one of AWS's image. "
            "Default: the job makes one from pinned wheels."
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the instance running, at your cost.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the job whose record is in --out.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before the run costs money.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Show every call to AWS, what the run needs, how long it lasts and what it costs "
            "at most. Nothing is sent.",
        ),
    ] = False,
) -> None:
    """Run sets of programs on an instance, fetch their results and write a page.

    Name the instance by one of --instance, --tag and --template.
    """
    given = {
        "instance": instance,
        "tag": tag,
        "template": template,
        "sets": names,
        "venv": venv,
    }
    with exit_codes():
        revision = checked_out(ROOT)
        options.check(given, hours, resume, dry_run)
        if not resume:
            options.check_folder(out)
        job = record.load(out) if resume else options.new_record(given, out, revision.commit)
        to_run = recorded(ROOT, job.commit)
        if hours is not None:
            job.seconds = hours * 3600
        if dry_run:
            rehearse(job, revision, keep)
            return
        if not resume:
            refuse_uncommitted(revision)
            job.folder.mkdir(exist_ok=True)
        start(job, to_run, keep, yes)


def refuse_uncommitted(revision: Revision) -> None:
    """Raises BAD_REQUEST where the work tree differs from the commit that would run."""
    if changed := revision.uncommitted():
        raise Failure(
            Kind.BAD_REQUEST,
            f"{len(changed)} files have changes that are not committed, such as {changed[0]}: the "
            f"commit {revision.commit[:12]} would run without them. Commit or stash them first",
        )


def start(job: Record, revision: Revision, keep: bool, yes: bool) -> None:
    """Shows the costs, runs the job and writes the page of its results."""
    screen, aws = Screen(), Aws(job.region)
    job.region = aws.region
    if job.missing:
        estimate(aws, job, revision, keep, screen)
        if not yes and is_interactive() and not typer.confirm("Run?", default=True):
            raise Failure(Kind.DECLINED, "you answered no, and nothing was started")
    job.save()
    screen.file = job.folder / LOG
    try:
        run_sets(aws, job, revision, keep, screen)
        write_page(job.folder, screen.say)
    except Failure as failure:
        # After other failures nobody should have to wait a minute for their reason.
        write_page(job.folder, screen.say, with_model=failure.kind is Kind.SET_FAILED)
        raise
    finally:
        screen.summary(job)


def estimate(aws: Aws, job: Record, revision: Revision, keep: bool, screen: Screen) -> None:
    """Finds out the type of the instance, and shows what will run and what it costs at most."""
    job.instance_type = ec2.type_of(aws, job.kind, job.target)
    screen.estimate(job, keep, len(revision.archive()))


def is_interactive() -> bool:
    """Returns whether somebody can answer a question."""
    return sys.stdin.isatty()


def rehearse(job: Record, revision: Revision, keep: bool) -> None:
    """Shows the calls of a run in which everything goes well, and what the real run asks for."""
    screen = Screen()
    calls = Calls(screen)
    aws = rehearsed(Rehearsal(job.missing, launched=job.kind == "template"), calls)
    kind = "" if job.kind == "template" else " that is stopped"
    screen.say(f"dry run: nothing is sent to AWS. It assumes a {INSTANCE_TYPE}{kind}")
    names = job.missing
    with tempfile.TemporaryDirectory() as folder:
        job.folder = Path(folder)
        estimate(aws, job, revision, keep, screen)
        run_sets(aws, job, revision, keep, screen)
    screen.say(f"calls that came more than once: {calls.repeated()}")
    screen.say(
        f"in a real run, poll is repeated every {pace.POLL:.0f} s until the job ends, and chunk "
        "for every 15 kB of results"
    )
    found = needs.rows(job, names, revision, calls.operations)
    screen.table("What the real run needs, how long it lasts and what it costs", found, True)


@app.command()
def status(out: Out = OUT) -> None:
    """Show the state of a job, of its sets and of its instance, and the end of the log."""
    with exit_codes():
        job, aws, screen = opened(out)
        state = ec2.state_now(aws, job.instance)
        if state == "running":
            offset, job.offset = job.offset, 0
            found = Job(aws, job, screen.say).poll()
            job.offset = offset
            job.save()
            screen.log(found["log"], found["skipped"])
        screen.say(f"instance {job.instance or '(none)'}: {state}")
        screen.summary(job)


@app.command()
def fetch(out: Out = OUT) -> None:
    """Fetch the results of the sets that have ended, and write the page."""
    with exit_codes():
        job, aws, screen = opened(out)
        remote = Job(aws, job, screen.say)
        if job.missing and ec2.state_now(aws, job.instance) == "running":
            remote.poll()
            remote.fetch_ended()
        write_page(job.folder, screen.say)
        screen.summary(job)
        judge(job)


@app.command()
def stop(out: Out = OUT) -> None:
    """End a job: terminate the instance that it launched, or stop the one that it started."""
    with exit_codes():
        job, aws, screen = opened(out)
        if job.kind == "template" or job.ours:
            release(aws, job, False, screen.say)
        elif ec2.state_now(aws, job.instance) == "running":
            stop_job(Job(aws, job, screen.say))


def opened(out: Path) -> tuple[Record, Aws, Screen]:
    """Returns the record of a job, with an Aws and a Screen to look at the job."""
    job = record.load(out)
    return job, Aws(job.region), Screen()


@contextmanager
def exit_codes() -> Iterator[None]:
    """Ends the command with the sentence and the exit code of a failure inside the block."""
    try:
        yield
    except (Failure, Interrupted) as failure:
        end(str(failure), failure.code)
    except KeyboardInterrupt:
        end("interrupted", 130)


def end(sentence: str, code: int) -> NoReturn:
    """Ends the command with one sentence on stderr."""
    typer.echo(f"hw_bench: {sentence} (exit code {code})", err=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    app()

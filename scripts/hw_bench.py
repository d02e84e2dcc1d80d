"""Tests and benchmarks on a Trainium instance of AWS: python scripts/hw_bench.py run --help

Starts or launches an EC2 instance, runs the checked-out revision there, brings the results back and
stops the instance, whatever happens in between. docs/hardware.md explains it from the start.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from remote import instance as ec2
from remote import pace, record
from remote.aws import Aws
from remote.cost import Estimate
from remote.dry_run import INSTANCE_TYPE, FoldingScreen, Rehearsal, rehearsed, without_pauses
from remote.failure import BadRequest, Declined, Failure, InstanceGone, Interrupted
from remote.job import Job
from remote.lifetime import release
from remote.options import Options
from remote.record import Record
from remote.revision import Revision, checked_out
from remote.run import fetch_ended, judge, run_sets
from remote.screen import Screen
from remote.sets import SETS

ROOT = Path(__file__).resolve().parent.parent

app = typer.Typer(add_completion=False, no_args_is_help=True)
Out = Annotated[Path, typer.Option(help="Folder for the results and the record of the job.")]
OUT = Path("hardware")


@app.callback()
def main() -> None:
    """Tests and benchmarks on a Trainium instance of AWS."""


@app.command()
def run(
    instance: Annotated[str | None, typer.Option(help="Id of an existing instance.")] = None,
    tag: Annotated[str | None, typer.Option(help="KEY=VALUE of one existing instance.")] = None,
    template: Annotated[
        str | None, typer.Option(help="Name or id of a launch template for a new instance.")
    ] = None,
    names: Annotated[
        str | None,
        typer.Option("--sets", "--set", help=f"Some of {','.join(SETS)}; all by default."),
    ] = None,
    out: Out = OUT,
    bucket: Annotated[
        str | None, typer.Option(help="S3 bucket for the transfers; without, through commands.")
    ] = None,
    hours: Annotated[float | None, typer.Option(help="Time limit; 2 by default.")] = None,
    venv: Annotated[
        str | None,
        typer.Option(
            help="Environment on the instance, such as that of AWS's image; by default one is made "
            "of pinned wheels."
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the instance running.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the job of the output folder.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before money is spent.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show every call of AWS and make none.")
    ] = False,
) -> None:
    """Runs sets on an instance and fetches their results."""
    options = Options(
        out=out,
        instance=instance,
        tag=tag,
        template=template,
        sets=names,
        bucket=bucket,
        hours=hours,
        venv=venv,
        keep=keep,
        resume=resume,
        yes=yes,
        dry_run=dry_run,
    )
    with exit_codes():
        run_job(options)


def run_job(options: Options) -> None:
    """Runs a new job, goes on with an old one, or shows what would be done."""
    revision = checked_out(ROOT)
    options.check()
    job = record.load(options.out) if options.resume else options.new_record(revision)
    to_run = Revision(ROOT, job.commit)  # which may have been changed in the record
    if options.hours is not None:
        job.seconds = options.hours * 3600
    if options.dry_run:
        rehearse(job, revision, options.keep)
        return
    if not options.resume:
        refuse_uncommitted(revision)
        create(job)
    start(job, to_run, options.keep, options.yes)


def create(job: Record) -> None:
    """Makes the output folder; raises BadRequest where it holds a job already."""
    if (job.folder / record.NAME).exists():
        raise BadRequest(
            f"argument '--out' is {str(job.folder)!r}, which holds a job: "
            "go on with --resume, or name another folder"
        )
    try:
        job.folder.mkdir(exist_ok=True)
    except OSError as error:
        raise BadRequest(f"cannot make {job.folder}: {error.strerror}") from error


def refuse_uncommitted(revision: Revision) -> None:
    """Raises BadRequest where the work tree is not what would run."""
    changed = revision.uncommitted()
    if changed:
        raise BadRequest(
            f"{len(changed)} files have changes that are not committed, such as {changed[0]}: the "
            f"commit {revision.commit[:12]} would run without them. Commit or stash them first"
        )


def start(job: Record, revision: Revision, keep: bool, yes: bool) -> None:
    """Shows the costs and runs the job."""
    screen = Screen(Console(highlight=False))
    aws = Aws(job.region)
    job.region = aws.region
    if job.missing:
        estimate(aws, job, keep, screen)
        if not yes and is_interactive() and not typer.confirm("Run?", default=True):
            raise Declined("nothing was started")
    job.save()
    try:
        run_sets(aws, job, revision, keep, screen)
    finally:
        screen.summary(job)


def estimate(aws: Aws, job: Record, keep: bool, screen: Screen) -> None:
    """Finds out what kind of instance it will be, and shows the costs."""
    if job.kind == "template":
        job.instance_type = ec2.template_type(aws, job.target)
    else:
        job.instance_type = ec2.find(aws, ec2.Target(job.kind, job.target))["InstanceType"]
    ec2.chip_of(job.instance_type)  # an instance without a NeuronCore is refused before it costs
    longest = pace.START + job.seconds + pace.GRACE
    screen.estimate(job, Estimate(job.instance_type, longest), keep)


def is_interactive() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()


def rehearse(job: Record, revision: Revision, keep: bool) -> None:
    """Shows the calls of a run in which everything goes well."""
    screen = FoldingScreen(Console(highlight=False))
    rehearsal = Rehearsal(job.missing, launched=job.kind == "template")
    aws = rehearsed(rehearsal, screen.call)
    screen.say(f"dry run: nothing is sent. A {INSTANCE_TYPE}, stopped unless launched, is assumed")
    with without_pauses(), tempfile.TemporaryDirectory() as folder:
        job.folder = Path(folder)
        estimate(aws, job, keep, screen)
        run_sets(aws, job, revision, keep, screen)
    screen.say("poll comes every 15 s until the job ends, chunk for every 15 kB of results")


@app.command()
def status(out: Out = OUT) -> None:
    """State of a job, of its sets and of its instance, and the end of its log."""
    with exit_codes():
        job, aws, screen = opened(out)
        state = state_of_instance(aws, job)
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
    """Fetches the results of the sets that have ended."""
    with exit_codes():
        job, aws, screen = opened(out)
        remote = Job(aws, job, screen.say)
        for name in job.missing:
            remote.fetch_uploaded(name)
        if job.missing and state_of_instance(aws, job) == "running":
            remote.poll()
            fetch_ended(remote)
        screen.summary(job)
        judge(job)


@app.command()
def stop(out: Out = OUT) -> None:
    """Ends a job and its instance: a launched one is terminated, another one stopped."""
    with exit_codes():
        job, aws, screen = opened(out)
        if job.kind == "template" or job.ours:
            release(aws, job, False, screen.say)
        elif state_of_instance(aws, job) == "running":
            Job(aws, job, screen.say).stop()
            screen.say(f"the job is stopped; {job.instance} ran before and is left running")


@app.command()
def doctor() -> None:
    """Whether this machine is ready to run kernels on a NeuronCore."""
    from trnfft.cli.health_checks import (  # slow to import, and only this needs it
        BROKEN,
        neuron_checks,
    )

    checks = neuron_checks()
    Screen(Console(highlight=False)).checks(checks)
    if any(check.status == BROKEN for check in checks):
        raise typer.Exit(1)


def opened(out: Path) -> tuple[Record, Aws, Screen]:
    """A job of the past, and what is needed to look at it."""
    job = record.load(out)
    return job, Aws(job.region), Screen(Console(highlight=False))


def state_of_instance(aws: Aws, job: Record) -> str:
    """The state in EC2's words, "terminated" where there is no instance."""
    if job.instance is None:
        return "terminated"
    try:
        return ec2.state_of(ec2.describe(aws, job.instance))
    except InstanceGone:
        return "terminated"


@contextmanager
def exit_codes() -> Iterator[None]:
    """Failures end the command with their sentence and their exit code."""
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

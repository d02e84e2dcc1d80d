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
from rich.console import Console

from remote import instance as ec2
from remote import needs, pace, record
from remote.aws import Aws
from remote.cost import Estimate
from remote.dry_run import INSTANCE_TYPE, FoldingScreen, Rehearsal, rehearsed, without_pauses
from remote.failure import BadRequest, Declined, Failure, InstanceGone, Interrupted, SetFailed
from remote.job import Job
from remote.lifetime import release
from remote.options import HOURS, Options
from remote.page import write_page
from remote.record import Record
from remote.revision import Revision, checked_out
from remote.run import fetch_ended, judge, run_sets
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
    bucket: Annotated[
        str | None,
        typer.Option(
            help="An S3 bucket for the revision and the results. Default: they travel through "
            "commands of Systems Manager."
        ),
    ] = None,
    hours: Annotated[
        float | None, typer.Option(help=f"The time limit of the job. Default: {HOURS:g}.")
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
    """Runs a new job, goes on with an old one, or shows what a run would do."""
    revision = checked_out(ROOT)
    options.check()
    if not options.resume:
        check_folder(options.out)
    job = record.load(options.out) if options.resume else options.new_record(revision)
    to_run = Revision(ROOT, job.commit)  # checked: somebody may have changed the record
    if options.hours is not None:
        job.seconds = options.hours * 3600
    if options.dry_run:
        rehearse(job, revision, options.keep)
        return
    if not options.resume:
        refuse_uncommitted(revision)
        job.folder.mkdir(exist_ok=True)
    start(job, to_run, options.keep, options.yes)


def check_folder(out: Path) -> None:
    """Raises BadRequest where the folder holds a job already, or where no job can be written."""
    try:
        holds_job = (out / record.NAME).exists()
        with tempfile.TemporaryDirectory(dir=out if out.exists() else out.parent):
            pass
    except OSError as error:
        raise BadRequest(
            f"argument '--out' is {str(out)!r}, where nothing can be written ({error.strerror}); "
            "allowed is a folder that you may write to, or a new name in such a folder"
        ) from error
    if holds_job:
        raise BadRequest(
            f"argument '--out' is {str(out)!r}, which holds a job: "
            "go on with that job by --resume, or name another folder"
        )


def refuse_uncommitted(revision: Revision) -> None:
    """Raises BadRequest where the work tree differs from the commit that would run."""
    changed = revision.uncommitted()
    if changed:
        raise BadRequest(
            f"{len(changed)} files have changes that are not committed, such as {changed[0]}: the "
            f"commit {revision.commit[:12]} would run without them. Commit or stash them first"
        )


def start(job: Record, revision: Revision, keep: bool, yes: bool) -> None:
    """Shows the costs, runs the job and writes the page of its results."""
    screen = Screen(Console(highlight=False))
    aws = Aws(job.region)
    job.region = aws.region
    if job.missing:
        estimate(aws, job, revision, keep, screen)
        if not yes and is_interactive() and not typer.confirm("Run?", default=True):
            raise Declined("you answered no, and nothing was started")
    job.save()
    screen.file = job.folder / LOG
    try:
        run_sets(aws, job, revision, keep, screen)
        write_page(job.folder, screen.say)
    except Failure as failure:
        # After other failures nobody should have to wait a minute for their reason.
        write_page(job.folder, screen.say, with_model=isinstance(failure, SetFailed))
        raise
    finally:
        screen.summary(job)


def estimate(aws: Aws, job: Record, revision: Revision, keep: bool, screen: Screen) -> None:
    """Finds out the type of the instance, and shows what will run and what it costs at most."""
    if job.kind == "template":
        job.instance_type = ec2.template_type(aws, job.target)
    else:
        job.instance_type = ec2.find(aws, ec2.Target(job.kind, job.target))["InstanceType"]
    ec2.chip_of(job.instance_type)  # refuses an instance without a NeuronCore before it costs
    size = len(revision.archive())
    screen.estimate(job, Estimate.of(job.instance_type, job.seconds), keep, size)


def is_interactive() -> bool:
    """Returns whether somebody can answer a question."""
    return sys.stdin.isatty()


def rehearse(job: Record, revision: Revision, keep: bool) -> None:
    """Shows the calls of a run in which everything goes well, and what the real run asks for."""
    screen = FoldingScreen(Console(highlight=False))
    rehearsal = Rehearsal(job.missing, launched=job.kind == "template")
    aws = rehearsed(rehearsal, screen.call)
    kind = "" if job.kind == "template" else " that is stopped"
    screen.say(f"dry run: nothing is sent to AWS. It assumes a {INSTANCE_TYPE}{kind}")
    out, names = job.folder, job.missing
    with without_pauses(), tempfile.TemporaryDirectory() as folder:
        job.folder = Path(folder)
        estimate(aws, job, revision, keep, screen)
        run_sets(aws, job, revision, keep, screen)
    screen.say(
        f"in a real run, poll is repeated every {pace.POLL:.0f} s until the job ends, and chunk "
        "for every 15 kB of results"
    )
    found = needs.rows(job, names, revision, out, INSTANCE_TYPE, screen.operations)
    screen.table("What the real run needs, how long it lasts and what it costs", found, True)


@app.command()
def status(out: Out = OUT) -> None:
    """Show the state of a job, of its sets and of its instance, and the end of the log."""
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
    """Fetch the results of the sets that have ended, and write the page."""
    with exit_codes():
        job, aws, screen = opened(out)
        remote = Job(aws, job, screen.say)
        for name in job.missing:
            remote.fetch_uploaded(name)
        if job.missing and state_of_instance(aws, job) == "running":
            remote.poll()
            fetch_ended(remote)
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
        elif state_of_instance(aws, job) == "running":
            Job(aws, job, screen.say).stop()
            screen.say(f"the job is stopped; {job.instance} ran before the job and is left running")


@app.command()
def doctor() -> None:
    """Check whether this machine is ready to run kernels on a NeuronCore."""
    from trnfft.cli.health_checks import (  # slow to import, and no other command needs it
        BROKEN,
        neuron_checks,
    )

    checks = neuron_checks()
    Screen(Console(highlight=False)).checks(checks)
    if any(check.status == BROKEN for check in checks):
        raise typer.Exit(1)


def opened(out: Path) -> tuple[Record, Aws, Screen]:
    """Returns the record of a job, with an Aws and a Screen to look at the job."""
    job = record.load(out)
    return job, Aws(job.region), Screen(Console(highlight=False))


def state_of_instance(aws: Aws, job: Record) -> str:
    """Returns the state in EC2's words; "terminated" where there is no instance."""
    if job.instance is None:
        return "terminated"
    try:
        return ec2.state_of(ec2.describe(aws, job.instance))
    except InstanceGone:
        return "terminated"


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

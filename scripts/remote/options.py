"""The options of `hw_bench.py run`, checked before anything is sent or costs money."""

from __future__ import annotations

import secrets
import tempfile
import time
from pathlib import Path

from remote import record, sets
from remote.failure import Failure, Kind
from remote.record import Record
from remote.states import WAITING

HOURS = 2.0
LONGEST_HOURS = 48.0
TARGETS = ("instance", "tag", "template")


def check(given: dict[str, str | None], hours: float | None, resume: bool, dry_run: bool) -> None:
    """Raises BAD_REQUEST for values that cannot work, or that --resume would ignore.

    given: the options that the record of a job keeps, None for those that were not given.
    """
    venv = given["venv"]
    complaint = ""
    if hours is not None and not 0 < hours <= LONGEST_HOURS:
        complaint = (
            f"argument '--hours' is {hours:g}; allowed are numbers above 0, up to {LONGEST_HOURS:g}"
        )
    elif venv is not None and not venv.startswith("/"):
        complaint = (
            f"argument '--venv' is {venv!r}; allowed is an absolute path on the instance, "
            "such as /opt/aws_neuronx_venv_torch_neuronx_2_14_0"
        )
    elif empty := next((name for name in TARGETS if given[name] == ""), None):
        complaint = (
            f"argument '--{empty}' is '', allowed are names that are not empty: name the {empty}, "
            "or leave the option out"
        )
    elif resume and (dry_run or any(value is not None for value in given.values())):
        complaint = (
            "--resume reads what the job was asked for from its record: leave out --instance, "
            "--tag, --template, --sets, --venv and --dry-run"
        )
    if complaint:
        raise Failure(Kind.BAD_REQUEST, complaint)


def check_folder(out: Path) -> None:
    """Raises BAD_REQUEST where the folder holds a job already, or where no job can be written."""
    try:
        holds_job = (out / record.NAME).exists()
        with tempfile.TemporaryDirectory(dir=out if out.exists() else out.parent):
            pass
    except OSError as error:
        raise Failure(
            Kind.BAD_REQUEST,
            f"argument '--out' is {str(out)!r}, where nothing can be written ({error.strerror}); "
            "allowed is a folder that you may write to, or a new name in such a folder",
        ) from error
    if holds_job:
        raise Failure(
            Kind.BAD_REQUEST,
            f"argument '--out' is {str(out)!r}, which holds a job: "
            "go on with that job by --resume, or name another folder",
        )


def new_record(given: dict[str, str | None], out: Path, commit: str) -> Record:
    """Returns the record of a new job, which is not saved yet."""
    targets = [(kind, name) for kind in TARGETS if (name := given[kind]) is not None]
    if len(targets) != 1:
        raise Failure(
            Kind.BAD_REQUEST,
            "the run needs exactly one of --instance, --tag and --template; --resume needs none",
        )
    ((kind, target),) = targets
    names = given["sets"]
    return Record(
        folder=out,
        job=f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}",
        region=None,
        kind=kind,
        target=target,
        commit=commit,
        venv=given["venv"] or "",
        seconds=HOURS * 3600,
        sets={name: {"state": WAITING} for name in sets.chosen("all" if names is None else names)},
    )

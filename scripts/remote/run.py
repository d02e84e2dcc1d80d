"""One run, from the start of the instance to the last result."""

from __future__ import annotations

import time
from typing import Any

from remote import pace
from remote.aws import Aws
from remote.failure import CommandFailed, Failure, SetFailed, TimeLimit
from remote.job import Job
from remote.lifetime import Lifetime, in_minutes, minutes_until
from remote.record import Record
from remote.revision import Revision
from remote.screen import Screen
from remote.states import COMPLETE, FINISHED, RUNNING, TIMED_OUT


def run_sets(aws: Aws, record: Record, revision: Revision, keep: bool, screen: Screen) -> None:
    """Runs the sets of a record whose results are missing, and fetches the results.

    Raises a Failure or Interrupted after the instance was stopped, if this run had started it.
    """
    job = Job(aws, record, screen.say)
    for name in record.missing:
        job.fetch_uploaded(name)
    if record.missing:
        with Lifetime(aws, record, keep, screen.say) as lifetime:
            lifetime.acquire()
            deadline = time.monotonic() + record.seconds
            arm(job, lifetime, deadline)
            work(job, lifetime, revision, deadline, screen)
    judge(record)


def arm(job: Job, lifetime: Lifetime, deadline: float) -> None:
    """Installs the worker. An instance that this run started will also stop itself."""
    record = job.record
    minutes = minutes_until(deadline) if record.ours and not lifetime.keep else None
    job.install(minutes, lifetime.keep and record.kind == "template")
    record.armed_until = None if minutes is None else in_minutes(minutes)
    record.save()


def work(job: Job, lifetime: Lifetime, revision: Revision, deadline: float, screen: Screen) -> None:
    """Fetches the results of an earlier run, then starts the missing sets and follows them."""
    record = job.record
    lifetime.in_doubt = True
    found = look(job, screen)
    if not is_running(found) and record.missing:
        job.upload(revision.archive())
        job.start(record.missing, deadline - time.monotonic())
        record.sent = True
        record.save()
    lifetime.in_doubt = False
    last_seen = time.monotonic()
    while record.missing:
        lifetime.in_doubt = True
        try:
            found = look(job, screen)
        except Failure as failure:
            if not failure.transient or time.monotonic() - last_seen > pace.PATIENCE:
                raise
            screen.say(f"{type(failure).__name__}: {failure}; trying again")
        else:
            last_seen = time.monotonic()
            lifetime.in_doubt = any(has_unfetched(one) for one in record.sets.values())
            if not is_running(found):
                return conclude(found)
        if time.monotonic() > deadline + pace.GRACE:
            raise TimeLimit(
                f"the job did not end within {record.seconds / 3600:g} h: run --resume with more "
                "--hours"
            )
        time.sleep(pace.POLL)


def look(job: Job, screen: Screen) -> dict[str, Any]:
    """Looks at the job once: shows its log and fetches the sets that have ended."""
    found = job.poll()
    screen.log(found["log"], found["skipped"])
    screen.states(job.record.sets)
    fetch_ended(job)
    return found


def fetch_ended(job: Job) -> None:
    """Fetches the results of every set that has ended."""
    for name in job.record.missing:
        job.fetch(name)


def is_running(found: dict[str, Any]) -> bool:
    """Returns whether the job runs on the instance."""
    return found["state"] == RUNNING and found.get("alive", True)


def has_unfetched(state: dict[str, Any]) -> bool:
    """Returns whether a set ran to its end and its results are not here."""
    return state["state"] in COMPLETE and not state.get("fetched")


def conclude(found: dict[str, Any]) -> None:
    """Raises the failure that kept the job from its end, if there is one."""
    if found["state"] == RUNNING:
        raise CommandFailed(
            "the job on the instance ended without a message: it was killed, or the disk is full"
        )
    if found["state"] == TIMED_OUT:
        raise TimeLimit("the time limit ended the job: run --resume with more --hours")
    if found["state"] != FINISHED:
        raise SetFailed(found.get("error") or f"the job is {found['state']}")


def judge(record: Record) -> None:
    """Raises SetFailed unless every set has finished and its results are here."""
    bad = [
        f"{name} {one['state']}" + (f" ({one['error']})" if one.get("error") else "")
        for name, one in record.sets.items()
        if one["state"] != FINISHED or not one.get("fetched")
    ]
    if bad:
        raise SetFailed("; ".join(bad))

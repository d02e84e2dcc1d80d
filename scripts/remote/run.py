"""One run as a state machine, from the start of the instance to the last result."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from remote import instance as ec2
from remote import pace
from remote.aws import Aws
from remote.cost import longest
from remote.failure import Failure, Interrupted, Kind
from remote.job import Job
from remote.record import Record
from remote.revision import Revision
from remote.screen import Screen
from remote.states import COMPLETE, FINISHED, RUNNING, TIMED_OUT

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
State = Callable[[], "State | None"]  # does its work, and returns the state that comes next


def run_sets(aws: Aws, record: Record, revision: Revision, keep: bool, screen: Screen) -> None:
    """Runs the sets of a record whose results are missing, and fetches the results.

    Raises a Failure or Interrupted after the instance was stopped, if this run had started it.
    """
    if record.missing:
        Run(aws, record, revision, keep, screen).through()
    judge(record)


class Run:
    """The states of a run, each a method:

        acquire -> reach -> meet -> follow -> the end
                              \\-> send -/

    Whatever happens in them, `release` comes last, and no signal interrupts it: an instance that
    was stopped before is stopped again. An instance that the run launched is terminated, or
    stopped where its disk may hold results that are not here. With `keep` the instance is left
    running.
    """

    def __init__(
        self, aws: Aws, record: Record, revision: Revision, keep: bool, screen: Screen
    ) -> None:
        self.aws = aws
        self.record = record
        self.revision = revision
        self.keep = keep
        self.screen = screen
        self.say = screen.say
        self.job = Job(aws, record, screen.say)
        self.in_doubt = record.sent  # whether the disk may hold results that are not here
        # However long the start takes, the run ends in the time that the estimate has for it.
        self.began = time.monotonic()
        self.deadline = math.inf  # of the job, on the monotonic clock
        self.last_seen = self.began

    def through(self) -> None:
        """Goes from state to state, and releases the instance at the end of every way."""
        handlers = {number: signal.signal(number, interrupt) for number in SIGNALS}
        error: BaseException | None = None
        try:
            state: State | None = self.acquire
            while state:
                state = state()
        except BaseException as problem:
            error = problem
            raise
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            try:
                if error is not None:
                    self.say(f"ending early: {error}; cleaning up, which no signal interrupts")
                self.release(error)
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)

    def acquire(self) -> State:
        """Finds, starts or launches the instance."""
        record = self.record
        if record.kind != "template":
            target = (
                ("instance", record.instance) if record.instance else (record.kind, record.target)
            )
            found = ec2.find(self.aws, *target)
            record.instance = found["InstanceId"]
            self.start_if_stopped(ec2.state_of(found))
            return self.reach
        state = ec2.state_now(self.aws, record.instance)  # its disk may hold results
        if state not in ec2.GONE:
            self.start_if_stopped(state)
            return self.reach
        if record.instance:
            self.say(f"instance {record.instance} is gone; launching another")
        self.launch()
        return self.reach

    def start_if_stopped(self, state: str) -> None:
        """Starts the instance unless it runs. From then on it is this run's to stop."""
        record = self.record
        if state in ("stopped", "stopping"):
            assert record.instance
            if record.kind != "template" and not self.keep:
                ec2.require_stop_at_shutdown(self.aws, record.instance)
            record.ours = True
            record.save()
            self.say(f"starting {record.instance}")
            ec2.start(self.aws, record.instance)

    def launch(self) -> None:
        """Launches an instance, which ends itself even if nobody ever reaches it."""
        # The record is saved before the call, so that a reader can find the instance in any case.
        record = self.record
        minutes = None if self.keep else math.ceil(longest(record.seconds) / 60)
        record.launches += 1
        record.instance, record.ours, record.sent, record.offset = None, True, False, 0
        record.armed_until = in_minutes(minutes)
        self.in_doubt = False
        record.save()
        try:
            record.instance = ec2.launch(self.aws, record.target, record.token, minutes)
        except Failure as failure:
            record.ours = failure.kind.transient  # otherwise AWS has refused: there is no instance
            raise
        finally:
            record.save()
        self.say(f"launched {record.instance}")

    def reach(self) -> State:
        """Waits until the instance accepts commands, and arms one that this run started."""
        record = self.record
        assert record.instance
        self.say(f"waiting for {record.instance} to answer Systems Manager")
        ec2.wait_online(self.aws, record.instance)
        start = min(time.monotonic(), self.began + pace.START)
        self.deadline = start + record.seconds
        left = self.deadline + pace.GRACE - time.monotonic()
        minutes = max(int(left // 60), 1) if record.ours and not self.keep else None
        self.job.install(minutes, disarm=self.keep and record.kind == "template")
        record.armed_until = in_minutes(minutes)
        record.save()
        return self.meet

    def meet(self) -> State | None:
        """Fetches what an earlier run has left on the instance, whose job may still run."""
        found = self.look()
        if is_running(found):
            return self.follow
        return self.send if self.record.missing else None

    def send(self) -> State:
        """Sends the revision and starts the missing sets."""
        self.job.upload(self.revision.archive())
        self.in_doubt = True
        self.job.start(self.record.missing, self.deadline - time.monotonic())
        self.record.sent = True
        self.record.save()
        self.last_seen = time.monotonic()
        return self.follow

    def follow(self) -> State | None:
        """Looks at the job until it ends. Passing failures are no end for some minutes."""
        try:
            found = self.look()
        except Failure as failure:
            if not failure.kind.transient or time.monotonic() - self.last_seen > pace.PATIENCE:
                raise
            self.say(f"{failure.kind.name}: {failure}; trying again")
        else:
            if not self.record.missing:
                return None
            if not is_running(found):
                conclude(found)
                return None
        if time.monotonic() > self.deadline + pace.GRACE:
            raise Failure(
                Kind.TIME_LIMIT,
                f"the job did not end within {self.record.seconds / 3600:g} h: run --resume with "
                "more --hours",
            )
        time.sleep(pace.POLL)
        return self.follow

    def look(self) -> dict[str, Any]:
        """Looks at the job once: shows its log and fetches the sets that have ended."""
        self.in_doubt = True
        found = self.job.poll()
        self.screen.log(found["log"], found["skipped"])
        self.screen.states(self.record.sets)
        self.job.fetch_ended()
        # A missing set of a job that runs may end at any moment, before anybody looks again.
        missing = [self.record.sets[name]["state"] for name in self.record.missing]
        self.in_doubt = any(state in COMPLETE or is_running(found) for state in missing)
        self.last_seen = time.monotonic()
        return found

    def release(self, error: BaseException | None) -> None:
        """Ends the instance; raises STILL_RUNNING where nothing else will end it."""
        record = self.record
        if self.keep:
            self.say(f"{record.instance} is left running, as --keep asks")
            return
        try:
            if record.ours:
                release(self.aws, record, self.in_doubt, self.say)
            elif error is not None and record.sent:
                stop_job(self.job)
        except Failure as failure:
            armed = record.armed_until
            itself = f"; it ends by itself at {clock(armed)}" if armed else ""
            complaint = f"cannot stop {record.instance or record.token}: {failure}{itself}"
            if error is None or not (armed or not record.ours):
                raise Failure(Kind.STILL_RUNNING, complaint) from failure
            self.say(complaint)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turns a signal into an exception."""
    raise Interrupted(number)


def stop_job(job: Job) -> None:
    """Ends the job on an instance that nobody has to stop."""
    job.stop()
    job.say(f"the job is stopped; {job.record.instance} ran before it and is left running")


def release(aws: Aws, record: Record, keep_disk: bool, say: Callable[[str], None]) -> None:
    """Stops the instance of a record, or terminates an instance that the job launched."""
    terminate = record.kind == "template" and not keep_disk
    for name in [record.instance] if record.instance else launched(aws, record):
        state = ec2.end(aws, name, terminate)
        is_kept = record.kind == "template" and state not in ec2.GONE
        say(f"{name} is {state}" + " with its disk, for --resume" * is_kept)
    record.ours, record.armed_until = False, None
    if terminate:
        record.instance = None
    record.save()


def launched(aws: Aws, record: Record) -> list[str]:
    """Returns instances of a launch whose answer was lost. EC2 may list them a little later."""
    for _ in range(pace.RETRIES + 1 if record.launches else 0):
        if found := ec2.tagged(aws, ec2.TAG, record.token):
            return [one["InstanceId"] for one in found]
        time.sleep(pace.STATE)
    return []


def clock(moment: float) -> str:
    """Returns a moment as local time."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def in_minutes(minutes: int | None) -> float | None:
    """Returns the Unix time in some minutes, for the record and for people. No limit uses it."""
    return None if minutes is None else time.time() + 60 * minutes


def is_running(found: dict[str, Any]) -> bool:
    """Returns whether the job runs on the instance."""
    return found["state"] == RUNNING and found.get("alive", True)


def conclude(found: dict[str, Any]) -> None:
    """Raises the failure that kept the job from its end, if there is one."""
    if found["state"] == RUNNING:
        raise Failure(
            Kind.COMMAND_FAILED,
            "the job on the instance ended without a message: it was killed, or the disk is full",
        )
    if found["state"] == TIMED_OUT:
        raise Failure(
            Kind.TIME_LIMIT, "the time limit ended the job: run --resume with more --hours"
        )
    if found["state"] != FINISHED:
        raise Failure(Kind.SET_FAILED, found.get("error") or f"the job is {found['state']}")


def judge(record: Record) -> None:
    """Raises SET_FAILED unless every set has finished and its results are here."""
    bad = [
        f"{name} {one['state']}" + (f" ({one['error']})" if one.get("error") else "")
        for name, one in record.sets.items()
        if one["state"] != FINISHED or not one.get("fetched")
    ]
    if bad:
        raise Failure(Kind.SET_FAILED, "; ".join(bad))

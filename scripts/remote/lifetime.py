"""The instance during a run: whatever happens, the instance does not outlive its use."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType

from remote import instance as ec2
from remote import pace
from remote.aws import Aws
from remote.failure import Failure, InstanceGone, Interrupted, StillRunning
from remote.job import Job
from remote.record import Record

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turns a signal into an exception."""
    raise Interrupted(number)


class Lifetime:
    """A context in which the instance of a record runs, and after which it is stopped.

    An instance that was stopped before is stopped again. An instance that the run launched is
    terminated, or stopped where its disk may hold results that are not here. With `keep` the
    instance is left running.
    """

    def __init__(self, aws: Aws, record: Record, keep: bool, say: Callable[[str], None]) -> None:
        self.aws = aws
        self.record = record
        self.keep = keep
        self.say = say
        self.in_doubt = record.sent  # whether the disk may hold results that are not here

    def __enter__(self) -> Lifetime:
        self.handlers = {number: signal.signal(number, interrupt) for number in SIGNALS}
        return self

    def acquire(self) -> None:
        """Finds, starts or launches the instance, and waits until it accepts commands."""
        record = self.record
        if record.kind == "template":
            self.acquire_launched()
        else:
            target = ec2.Target("instance", record.instance) if record.instance else None
            found = ec2.find(self.aws, target or ec2.Target(record.kind, record.target))
            record.instance = found["InstanceId"]
            self.start_if_stopped(ec2.state_of(found))
        assert record.instance
        self.say(f"waiting for {record.instance} to answer Systems Manager")
        ec2.wait_online(self.aws, record.instance)

    def acquire_launched(self) -> None:
        """Uses the instance of an earlier run, whose disk may hold results, or launches one."""
        record = self.record
        if record.instance:
            try:
                state = ec2.state_of(ec2.describe(self.aws, record.instance))
            except InstanceGone:
                state = "terminated"
            if state not in ec2.GONE:
                self.start_if_stopped(state)
                return
            self.say(f"instance {record.instance} is gone; launching another")
        # The record is saved before the call, so that a reader can find the instance in any case.
        minutes = None if self.keep else minutes_from_launch(record.seconds)
        record.launches += 1
        record.instance, record.ours, record.sent, record.offset = None, True, False, 0
        record.armed_until = None if minutes is None else in_minutes(minutes)
        self.in_doubt = False
        record.save()
        try:
            switch = ec2.Switch(minutes, keeps_disk=self.keep or record.bucket is None)
            record.instance = ec2.launch(self.aws, record.target, record.token, switch)
        except Failure as failure:
            record.ours = failure.transient  # otherwise AWS has refused, and there is no instance
            raise
        finally:
            record.save()
        self.say(f"launched {record.instance}")

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        try:
            if error is not None:
                self.say(f"ending early: {error}; cleaning up, which no signal interrupts")
            self.release(error)
        finally:
            for number, handler in self.handlers.items():
                signal.signal(number, handler)

    def release(self, error: BaseException | None) -> None:
        """Ends the instance; raises StillRunning where nothing else will end it."""
        record = self.record
        if self.keep:
            self.say(f"{record.instance} is left running, as --keep asks")
            return
        try:
            if record.ours:
                release(self.aws, record, self.in_doubt, self.say)
            elif error is not None and record.sent:
                Job(self.aws, record, self.say).stop()
                self.say("the job is stopped; the instance ran before the job and is left running")
        except Failure as failure:
            armed = record.armed_until
            itself = f"; it ends by itself at {clock(armed)}" if armed else ""
            complaint = f"cannot stop {record.instance or record.token}: {failure}{itself}"
            if error is None or not (armed or not record.ours):
                raise StillRunning(complaint) from failure
            self.say(complaint)


def release(aws: Aws, record: Record, keep_disk: bool, say: Callable[[str], None]) -> None:
    """Stops the instance of a record, or terminates an instance that the job launched."""
    terminate = record.kind == "template" and not keep_disk
    names = [record.instance] if record.instance else launched(aws, record)
    for name in names:
        state = ec2.end(aws, name, terminate)
        disk = " with its disk, for --resume" if record.kind == "template" and keep_disk else ""
        say(f"{name} is {state}{disk}")
    record.ours, record.armed_until = False, None
    if terminate:
        record.instance = None
    record.save()


def launched(aws: Aws, record: Record) -> list[str]:
    """Returns instances of a launch whose answer was lost. EC2 may list them a little later."""
    for _ in range(pace.RETRIES + 1 if record.launches else 0):
        names = ec2.launched_with(aws, record.token)
        if names:
            return names
        time.sleep(pace.STATE)
    return []


def clock(moment: float | None) -> str:
    """Returns a moment as local time."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


def in_minutes(minutes: int) -> float:
    """Returns the Unix time in some minutes, for the record and for people. No limit uses it."""
    return time.time() + 60 * minutes


def minutes_until(deadline: float) -> int:
    """Returns whole minutes until a time of the monotonic clock plus the grace, at least one."""
    return max(int((deadline + pace.GRACE - time.monotonic()) // 60), 1)


def minutes_from_launch(seconds: float) -> int:
    """Returns the minutes from its launch to the end of an instance that nobody has reached."""
    return math.ceil((pace.START + seconds + pace.GRACE) / 60)

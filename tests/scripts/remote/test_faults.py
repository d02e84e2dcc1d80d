"""Runs that go wrong: the exit code, what is left running, and what --resume brings back."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from remote.payload import decode, encode

from .conftest import git, wait_for
from .fake_aws import (
    ALWAYS,
    Response,
    body,
    close,
    error,
    first,
    flip,
    invocation,
    lose_answer,
    output,
)

sweep = pytest.mark.sweep  # test_run.py has some faults in its run
PARITY = "bench.parity"
ACCURACY = "bench.accuracy"
ONE = ("--sets", "parity")
TWO = ("--sets", "parity,accuracy")


def parity(out: Path) -> dict[str, str]:
    return json.loads((out / "parity.json").read_text())


# Faults that pass, which nobody should notice


PASSING = {
    "services": [
        ("SendCommand", "poll", error("ThrottlingException")),
        ("SendCommand", "start", error("InternalServerError", 500)),
        ("SendCommand", "chunk", lambda r, f: Response(502, b"<html>bad gateway</html>")),
        ("GetCommandInvocation", "arm", error("InvocationDoesNotExist")),
        ("GetCommandInvocation", "accept", error("ThrottlingException")),
        ("DescribeInstances", "", error("RequestLimitExceeded", 503)),
        ("StartInstances", "", error("ServiceUnavailable", 503)),
    ],
    "network": [
        ("SendCommand", "arm", close),
        ("SendCommand", "receive", lose_answer),
        ("SendCommand", "start", lose_answer),
        ("GetCommandInvocation", "chunk", close),
        ("StartInstances", "", lose_answer),
        ("StopInstances", "", lose_answer),
    ],
    "payloads": [
        ("GetCommandInvocation", "chunk", output(lambda text: text[: len(text) // 2])),
        ("GetCommandInvocation", "poll", output(flip)),
        ("GetCommandInvocation", "start", output(lambda text: "")),
        ("GetCommandInvocation", "accept", output(lambda text: text[:-2])),
    ],
}


@sweep
@pytest.mark.parametrize("name", PASSING)
def test_passing_faults_cost_nothing(call, aws, out, name):
    injected = [
        aws.inject(operation, function, verb, times=2)
        for operation, verb, function in PASSING[name]
    ]
    instance = aws.new_instance()
    call("run", "--instance", instance, *ONE)
    assert all(fault.struck for fault in injected)
    assert parity(out) == {"from": PARITY}
    assert aws.ran == [PARITY]
    assert aws.state(instance) == "stopped"


@sweep
def test_a_job_that_runs_is_followed_through_faults_of_minutes(call, aws, monkeypatch):
    monkeypatch.setattr("remote.pace.PATIENCE", 60.0)
    fault = aws.inject("SendCommand", error("ThrottlingException"), "poll", skip=1, times=5)
    said = call("run", "--instance", aws.new_instance(), *ONE)
    assert fault.struck == 5 and "trying again" in said
    assert aws.ran == [PARITY]


@sweep
def test_a_lost_answer_never_launches_twice(call, aws):
    aws.inject("RunInstances", lose_answer, times=2)
    call("run", "--template", aws.new_template(), *ONE)
    tokens = [one.parameters["ClientToken"] for one in aws.operations("RunInstances")]
    assert len(tokens) == 3 and len(set(tokens)) == 1
    assert aws.states() == ["terminated"]


# Faults that stay: what they end with, and what --resume brings back


class Fault(NamedTuple):
    """A fault in a run of two sets, and the exit code and the instances that are expected of it."""

    code: int
    target: str  # instance (which was stopped), running (before the run) or template
    operation: str
    function: Any
    states: list[str]  # of all instances after the run
    verb: str = ""
    midway: bool = False  # strikes when the results of parity are here, and accuracy runs
    says: str = ""
    sets: tuple[str, ...] = TWO


def signalled(number: int) -> Any:
    return first(lambda: os.kill(os.getpid(), number))


def clock(code: str, status: int, minutes: int) -> Any:
    """A refused signature, by an AWS whose clock is some minutes ahead."""

    def strike(request, forward):
        response = error(code, status)(request, forward)
        date = formatdate(time.time() + 60 * minutes, usegmt=True)
        return Response(response.status, response.body, {"Date": date})

    return strike


SEND, GET = "SendCommand", "GetCommandInvocation"
STOPPED, TERMINATED, RUNNING = ["stopped"], ["terminated"], ["running"]
TIMED_OUT = invocation(Status="TimedOut", StatusDetails="ExecutionTimedOut")
UNDELIVERABLE = invocation(Status="Failed", StatusDetails="Undeliverable")
CANCELLED = invocation(Status="Cancelled", StatusDetails="Cancelled")
FAULTS = {
    "throttling": Fault(5, "instance", SEND, error("ThrottlingException"), STOPPED, "poll", True),
    "lost network": Fault(11, "instance", SEND, close, STOPPED, "poll", True),
    "time-out": Fault(9, "instance", GET, TIMED_OUT, STOPPED, "chunk"),
    "undeliverable": Fault(9, "instance", GET, UNDELIVERABLE, STOPPED, "chunk"),
    "cancelled": Fault(8, "instance", GET, CANCELLED, STOPPED, "chunk"),
    "access": Fault(4, "template", SEND, error("AccessDeniedException"), STOPPED, "poll"),
    # With its disk: there is something to fetch.
    "cut": Fault(12, "template", GET, output(lambda text: text[:99]), STOPPED, "chunk"),
    "changed": Fault(12, "template", GET, output(flip), STOPPED, "chunk"),
    "SIGTERM": Fault(143, "instance", SEND, signalled(signal.SIGTERM), STOPPED, "poll", True),
    "Ctrl-C": Fault(130, "running", SEND, signalled(signal.SIGINT), RUNNING, "poll", True),
    "SIGTERM at the launch": Fault(
        143, "template", "RunInstances", signalled(signal.SIGTERM), TERMINATED
    ),
    "no answer to the launch": Fault(11, "template", "RunInstances", lose_answer, TERMINATED),
    "no capacity": Fault(
        6, "template", "RunInstances", error("InsufficientInstanceCapacity", 500), []
    ),
    "quota": Fault(6, "template", "RunInstances", error("VcpuLimitExceeded"), []),
    "no capacity at the start": Fault(
        6, "instance", "StartInstances", error("InsufficientInstanceCapacity", 500), STOPPED
    ),
    "refused": Fault(15, "instance", "StartInstances", error("InvalidState", 403), STOPPED),
    "clock behind": Fault(
        4,
        "instance",
        SEND,
        clock("InvalidSignatureException", 400, 12),
        STOPPED,
        says="The clock here is 12 minutes behind",
    ),
    "clock ahead": Fault(
        4,
        "instance",
        "StartInstances",
        clock("AuthFailure", 401, -7),
        STOPPED,
        says="The clock here is 7 minutes ahead",
    ),
}


@sweep
@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_stay(call, aws, out, gate, midway, name):
    """The instance ends, what had finished is fetched by --resume, and nothing is repeated."""
    fault = FAULTS[name]
    if fault.target == "template":
        target = ("--template", aws.new_template())
    else:
        target = ("--instance", aws.new_instance(stopped=fault.target != "running"))
    times = 1 if fault.code > 128 else ALWAYS
    when = midway if fault.midway else None
    aws.inject(fault.operation, fault.function, fault.verb, times=times, when=when)
    said = call("run", *target, *fault.sets, code=fault.code)
    assert fault.says in said
    assert aws.states() == fault.states
    assert not any(aws.background(one) for one in aws.instances())
    if fault.code == 12:  # damaged results are never used
        assert sorted(path.name for path in out.iterdir()) == ["job.json", "run.log"]
    aws.faults.clear()
    gate.touch()
    call("run", "--resume")
    assert parity(out) == {"from": PARITY}
    assert aws.ran.count(PARITY) == 1
    ends = {"instance": "stopped", "running": "running", "template": "terminated"}
    assert set(aws.states()) == {ends[fault.target]}


@sweep
@pytest.mark.parametrize(
    ("function", "code"), [(error("ExpiredTokenException"), 4), (close, 11)], ids=["token", "net"]
)
def test_nothing_can_be_called_any_more(call, aws, gate, out, function, code):
    """The script cannot stop the instance: the instance stops itself, and no result is lost."""
    template = aws.new_template()
    begin = first(lambda: aws.inject("*", function, times=ALWAYS))
    aws.inject(SEND, begin, "chunk")
    assert "it ends by itself at" in call("run", "--template", template, *TWO, code=code)
    ((instance, state),) = aws.instances().items()
    assert state == "running"
    aws.let_time_pass(instance)
    assert aws.state(instance) == "stopped"
    aws.faults.clear()
    gate.touch()
    call("run", "--resume")
    assert parity(out) == {"from": PARITY}
    assert aws.ran.count(PARITY) == 1
    assert aws.states() == ["terminated"]


def test_a_launched_instance_is_armed_by_its_boot(call, aws):
    """No call succeeds after the launch, as if the script had been killed."""
    for operation in ("DescribeInstances", "DescribeInstanceInformation", "TerminateInstances"):
        aws.inject(operation, close, times=ALWAYS)
    options = (*ONE, "--hours", "1.5")
    said = call("run", "--template", aws.new_template(), *options, code=11)
    assert "it ends by itself at" in said
    ((instance, state),) = aws.instances().items()
    # 1.5 h, a minute of grace and a moment to come online, in whole minutes.
    assert state == "running" and aws.shutdown_time(instance) == "+92"
    aws.let_time_pass(instance)
    assert aws.state(instance) == "stopped"
    aws.faults.clear()
    call("stop")
    assert aws.state(instance) == "terminated"  # and its disk with it, whoever was killed when


@sweep
def test_a_second_boot_arms_again_and_keep_disarms(call, aws):
    aws.inject(SEND, error("AccessDeniedException"), "poll")
    call("run", "--template", aws.new_template(), *ONE, "--hours", "1", code=4)
    (instance,) = aws.instances()
    assert aws.state(instance) == "stopped"  # its disk may hold results
    aws.ec2.start_instances(InstanceIds=[instance])
    aws.boot(instance)
    assert aws.shutdown_time(instance) == "+62"
    call("run", "--resume", "--keep")
    assert aws.state(instance) == "running" and aws.shutdown_time(instance) is None


@sweep
def test_the_time_limit_waits_for_the_end_of_the_boot(call, aws):
    instance = aws.new_instance()
    home = aws.disk(instance)
    waits = 'echo "$*" > $HOME/waited; test ! -e $HOME/shutdown'
    aws.program(home / "bin" / "cloud-init", waits)
    call("run", "--instance", instance, *ONE)
    assert (home / "waited").read_text() == "status --wait\n"


@sweep
def test_killed_without_warning(process, call, aws, out, gate):
    instance = aws.new_instance()
    running = process("--instance", instance, *TWO, "--hours", "1")
    wait_for((out / "parity.json").exists)
    running.kill()
    running.wait()
    assert aws.state(instance) == "running"
    assert aws.shutdown_time(instance) in ("+59", "+60")  # an hour and a minute, less a part
    gate.touch()  # the job ends with nobody there
    wait_for(lambda: not aws.background(instance))
    aws.let_time_pass(instance)
    call("run", "--resume")
    assert aws.ran == [PARITY, ACCURACY]
    assert aws.state(instance) == "stopped"


@sweep
def test_a_disk_is_kept_where_a_set_may_end_before_anybody_looks(call, aws, midway, monkeypatch):
    def sleep(seconds):
        time.sleep(seconds)
        if midway():
            os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr("remote.run.time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
    call("run", "--template", aws.new_template(), *TWO, code=129)
    assert aws.states() == ["stopped"]


@sweep
def test_no_disk_is_kept_for_a_job_that_has_nothing_left_to_do(call, aws):
    def running(text):
        return encode({**decode(text), "state": "running", "alive": True})

    aws.inject(GET, output(running), "poll", times=ALWAYS, when=lambda: bool(aws.ran))
    call("run", "--template", aws.new_template(), *ONE)
    assert aws.states() == ["terminated"]


@sweep
def test_an_instance_that_is_pending_is_stopped_as_soon_as_it_runs(call, aws):
    looks = body(lambda content: content.replace(b">running<", b">pending<"))

    def started():
        return bool(aws.operations("StartInstances"))

    pending = aws.inject("DescribeInstances", looks, times=26, when=started)  # 20 until START
    refused = error("IncorrectInstanceState")
    aws.inject("StopInstances", refused, times=ALWAYS, when=lambda: pending.struck < pending.times)
    instance = aws.new_instance()
    assert "did not start" in call("run", "--instance", instance, *ONE, code=7)
    assert aws.state(instance) == "stopped"


@sweep
def test_stopped_instance_that_existed_is_gone_for_good(call, aws):
    instance = aws.new_instance()
    aws.inject(SEND, first(lambda: aws.terminate(instance)), "poll")
    said = call("run", "--instance", instance, *ONE, code=10)
    assert "go on: python scripts/hw_bench.py run" in said
    again = call("run", "--resume", code=10)
    assert again == f"hw_bench: instance {instance} is terminated (exit code 10)\n"


@sweep
def test_disk_with_results_survives_a_resume_that_fails(call, aws, out):
    fault = aws.inject(GET, output(flip), "chunk", times=ALWAYS)
    call("run", "--template", aws.new_template(), *ONE, code=12)
    fault.times = 0
    aws.is_online = False
    call("run", "--resume", code=7)
    assert aws.states() == ["stopped"]
    aws.is_online = True
    assert "1 h" in call("run", "--resume", "--hours", "1")
    assert aws.ran == [PARITY] and aws.states() == ["terminated"]


@sweep
def test_instance_that_cannot_be_stopped(call, aws):
    aws.is_online = False
    aws.inject("StopInstances", error("UnauthorizedOperation", 403), times=ALWAYS)
    instance = aws.new_instance()
    said = call("run", "--instance", instance, *ONE, code=14)
    assert "AmazonSSMManagedInstanceCore" in said and f"cannot stop {instance}" in said
    aws.faults.clear()
    call("stop")
    assert aws.state(instance) == "stopped"


@sweep
def test_an_existing_instance_is_never_terminated(call, aws, out):
    instance = aws.new_instance(at_shutdown="terminate")
    said = call("run", "--instance", instance, *ONE, code=2)
    assert "set its shutdown behavior to stop, or run with --keep" in said
    assert not aws.operations("StartInstances") and aws.state(instance) == "stopped"
    assert not json.loads((out / "job.json").read_text())["ours"]
    call("run", "--resume", "--keep")


# Programs and disks of the instance


ILL = {
    "a set fails": ("bench.parity", {"exit": 3}, "parity failed (exit code 3)"),
    "nothing written": ("bench.parity", {"writes_nothing": True}, "parity.json was not written"),
}


@sweep
@pytest.mark.parametrize(("script", "behaviour", "says"), ILL.values(), ids=ILL)
def test_failures_are_results_too(call, aws, out, script, behaviour, says):
    aws.behave({script: behaviour})
    instance = aws.new_instance()
    assert says in call("run", "--instance", instance, "--sets", "parity,benchmarks", code=1)
    assert (out / "parity.log").exists() and (out / "benchmarks.json").exists()
    assert (out / "parity.json").exists() != ("writes_nothing" in behaviour)
    assert aws.state(instance) == "stopped"
    ran = list(aws.ran)
    call("run", "--resume", code=1)
    assert aws.ran == ran  # it is not repeated


@sweep
def test_results_that_the_instance_cannot_write(call, aws, out):
    aws.behave({PARITY: {"do": "import os; os.mkdir('../parity.payload')"}})
    said = call("run", "--template", aws.new_template(), *TWO, code=1)
    assert "Is a directory" in said
    assert (out / "accuracy.json").exists() and not (out / "parity.json").exists()
    assert aws.states() == ["stopped"]
    (obstacle,) = aws.folder.glob("instances/*/trnfft-jobs/*/parity.payload")
    obstacle.rmdir()
    aws.behave({})
    call("run", "--resume")
    assert aws.ran == [PARITY, ACCURACY, PARITY]


@sweep
def test_disk_of_the_instance_is_full_at_the_upload(call, aws):
    def fill():
        (folder,) = aws.disk(instance).glob("trnfft-jobs/*")
        (folder / "revision.part").symlink_to("/dev/full")

    instance = aws.new_instance()
    aws.inject(SEND, first(fill), "receive")
    assert "No space left on device" in call("run", "--instance", instance, *ONE, code=8)
    assert aws.state(instance) == "stopped"


@sweep
def test_job_on_the_instance_is_killed(call, aws, gate, midway):
    instance = aws.new_instance()
    aws.inject(SEND, first(lambda: aws.kill(instance)), "poll", when=midway)
    call("run", "--instance", instance, *TWO, code=8)
    gate.touch()
    call("run", "--resume")
    assert aws.ran.count(PARITY) == 1 and aws.ran.count(ACCURACY) == 2


@sweep
def test_time_limit_before_anything_ran(call, aws):
    call("run", "--template", aws.new_template(), *ONE, "--hours", "0.00001", code=13)
    assert aws.ran == [] and aws.states() == ["terminated"]


@pytest.mark.slow
def test_time_limit(call, aws, gate, out):
    call("run", "--template", aws.new_template(), *TWO, "--hours", "0.002", code=13)
    assert parity(out) == {"from": PARITY}
    assert "running bench.accuracy" in (out / "accuracy.log").read_text()
    assert aws.states() == ["terminated"]
    gate.touch()
    call("run", "--resume", "--hours", "1")
    assert aws.ran == [PARITY, ACCURACY, ACCURACY]


@sweep
def test_no_pip_no_run(call, aws):
    aws.program(aws.venv / "bin" / "python", "echo no network >&2\nexit 1")
    instance = aws.new_instance()
    call("run", "--instance", instance, *ONE, code=1)
    assert aws.state(instance) == "stopped"


# Clocks, regions, records


@sweep
def test_time_limits_do_not_follow_a_clock_that_is_set(call, aws, monkeypatch):
    """The clock jumps by a day between any two readings."""
    days = itertools.count()
    real = {name: getattr(time, name) for name in ("monotonic", "sleep", "strftime", "localtime")}
    jumping = SimpleNamespace(time=lambda: 1e9 + 86_400 * next(days), **real)
    monkeypatch.setattr("remote.run.time", jumping)
    instance = aws.new_instance()
    armed = []
    look = first(lambda: armed.append(aws.shutdown_time(instance)))
    aws.inject("StopInstances", look)
    call("run", "--instance", instance, *TWO, "--hours", "1")
    assert armed[-1] in ("+60", "+61")


NO_COMMITS = ("--output=pwned", "HEAD", "0123abc", "ABCDEF" * 6 + "0123", "0" * 40 + "^", "0" * 40)


@sweep
def test_a_commit_that_is_none_never_reaches_git_archive(call, aws, out, repository):
    aws.inject(SEND, error("AccessDeniedException"), "start")
    call("run", "--template", aws.new_template(), *ONE, code=4)
    record = json.loads((out / "job.json").read_text())
    before = len(aws.requests)
    for commit in NO_COMMITS:
        (out / "job.json").write_text(json.dumps({**record, "commit": commit}))
        said = call("run", "--resume", code=2)
        is_hash = commit == "0" * 40
        assert (f"the commit {commit} is not in" if is_hash else f"{commit!r}; allowed") in said
    assert len(aws.requests) == before
    assert not list(repository.rglob("pwned")) and not Path("pwned").exists()


@sweep
def test_resume_runs_the_commit_of_the_job(call, aws, repository, out):
    aws.inject(SEND, error("AccessDeniedException"), "start")
    call("run", "--instance", aws.new_instance(), *ONE, code=4)
    (repository / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    git(repository, "commit", "-qam", "second")
    aws.behave({PARITY: {"do": "print(open('pyproject.toml').read())"}})
    call("run", "--resume")
    assert "changed" not in (out / "parity.log").read_text()


REGIONS = {
    "both variables": ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
    "an empty one": ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
    "the profile": ({"AWS_CONFIG_FILE": "config"}, "eu-west-3"),
    "none": ({}, None),
    "no region": ({"AWS_REGION": "us west"}, None),
}


@sweep
@pytest.mark.parametrize(("variables", "expected"), REGIONS.values(), ids=REGIONS)
def test_region(call, aws, monkeypatch, tmp_path, variables, expected):
    """The first request is signed for the region that it goes to."""
    monkeypatch.chdir(tmp_path)
    Path("config").write_text("[default]\nregion = eu-west-3\n")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = call("run", "--instance", "i-0123", code=10 if expected else 2)
    if expected is None:
        assert not aws.requests and "set AWS_REGION, AWS_DEFAULT_REGION or" in said
    else:
        assert "there is no instance i-0123" in said
        assert f"/{expected}/ec2/" in aws.requests[0].environ["HTTP_AUTHORIZATION"]


@sweep
def test_a_job_goes_on_in_its_region(call, aws, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    call("run", "--instance", aws.new_instance(), *ONE)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    aws.requests.clear()
    call("status")
    assert aws.requests
    assert all("/us-east-1/" in one.environ["HTTP_AUTHORIZATION"] for one in aws.requests)


@sweep
def test_no_credentials(call, aws, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "Unable to locate credentials" in call("run", "--instance", "i-0123", code=4)

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

import pytest

from .fake_aws import Response, body, change_output, close, error, flip, invocation, lose_answer

pytestmark = pytest.mark.sweep  # test_run.py has some faults in its run

PARITY = "bench.parity"
ACCURACY = "bench.accuracy"
TWO = ("--sets", "parity,accuracy")
ALWAYS = float("inf")


def parity(out: Path) -> dict[str, str]:
    return json.loads((out / "parity.json").read_text())


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def gate(tmp_path, aws):
    """Returns the file for which the accuracy set waits, after the parity set has finished."""
    path = tmp_path / "gate"
    aws.behave({ACCURACY: {"until": str(path)}})
    return path


@pytest.fixture
def midway(aws, out, gate):
    """Returns a function: whether the results of parity are here, and accuracy runs."""
    return lambda: (out / "parity.json").exists() and ACCURACY in aws.ran


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
        ("GetCommandInvocation", "chunk", change_output(lambda text: text[: len(text) // 2])),
        ("GetCommandInvocation", "poll", change_output(flip)),
        ("GetCommandInvocation", "start", change_output(lambda text: "")),
        ("GetCommandInvocation", "accept", change_output(lambda text: text[:-2])),
    ],
}


@pytest.mark.parametrize("faults", PASSING.values(), ids=PASSING)
def test_passing_faults_cost_nothing(call, aws, out, faults):
    injected = [aws.inject(name, function, verb, times=2) for name, verb, function in faults]
    instance = aws.new_instance()
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 0, result.output
    assert all(fault.struck == 2 for fault in injected)
    assert parity(out) == {"from": PARITY}
    assert aws.ran == [PARITY]
    assert aws.state(instance) == "stopped"


def test_a_lost_answer_never_launches_twice(call, aws):
    aws.inject("RunInstances", lose_answer, times=2)
    result = call("run", "--template", aws.new_template(), "--sets", "parity")
    assert result.exit_code == 0, result.output
    tokens = [one.parameters["ClientToken"] for one in aws.operations("RunInstances")]
    assert len(tokens) == 3 and len(set(tokens)) == 1
    assert aws.states() == ["terminated"]


def test_a_launch_that_never_answers_is_found_and_ended(call, aws):
    aws.inject("RunInstances", lose_answer, times=ALWAYS)
    result = call("run", "--template", aws.new_template(), "--sets", "parity")
    assert result.exit_code == 11, result.output
    assert aws.states() == ["terminated"]


# Faults that stay, with the exit code of their kind, and --resume


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (error("ThrottlingException"), 5),
        (close, 11),
    ],
    ids=["throttling", "lost network"],
)
def test_systems_manager_fails_midway(call, aws, out, gate, midway, function, code):
    fault = aws.inject("SendCommand", function, "poll", times=ALWAYS, when=midway)
    instance = aws.new_instance()
    result = call("run", "--instance", instance, *TWO)
    assert result.exit_code == code, result.output
    assert aws.state(instance) == "stopped" and not aws.background(instance)
    fault.times = 0
    gate.touch()
    again = call("run", "--resume")
    assert again.exit_code == 0, again.output
    assert parity(out) == {"from": PARITY}
    assert aws.ran.count(PARITY) == 1  # what had finished was fetched, not repeated
    assert aws.state(instance) == "stopped"


@pytest.mark.parametrize(
    ("function", "code"),
    [(error("ExpiredTokenException"), 4), (close, 11)],
    ids=["expired credentials", "lost network"],
)
def test_nothing_can_be_called_any_more(call, aws, gate, out, function, code):
    """The script cannot stop the instance: the instance stops itself, and no result is lost."""
    seen = []

    def strike(request, forward):
        seen.append(request.operation)
        return function(request, forward)

    template = aws.new_template()
    first = aws.inject("SendCommand", lambda r, f: [begin(), f(r)][1], "chunk")

    def begin():
        aws.inject("*", strike, times=ALWAYS)

    result = call("run", "--template", template, *TWO)
    assert first.struck and seen
    assert result.exit_code == code, result.output
    assert "it ends by itself at" in result.output
    (instance,) = [
        i["InstanceId"]
        for r in aws.ec2.describe_instances()["Reservations"]
        for i in r["Instances"]
    ]
    assert aws.state(instance) == "running"
    aws.let_time_pass(instance)
    assert aws.state(instance) == "stopped"
    aws.faults.clear()
    gate.touch()
    again = call("run", "--resume")
    assert again.exit_code == 0, again.output
    assert parity(out) == {"from": PARITY}
    assert aws.ran.count(PARITY) == 1
    assert aws.states() == ["terminated"]


def test_results_in_the_bucket_outlive_the_instance(call, aws, out, gate):
    aws.s3.create_bucket(Bucket="results")
    template = aws.new_template()

    def strike(request, forward):
        while not uploads.struck or "Contents" not in aws.s3.list_objects_v2(Bucket="results"):
            time.sleep(0.01)
        aws.terminate(request.parameters["InstanceIds"][0])
        return forward(request)

    # The instance has uploaded its first results, and ends before anybody has seen that.
    uploads = aws.inject("PutObject presigned", lambda request, forward: forward(request))
    aws.inject("SendCommand", strike, "poll", skip=1)
    result = call("run", "--template", template, *TWO, "--bucket", "results")
    assert result.exit_code == 10, result.output
    assert not (out / "parity.json").exists()
    gate.touch()
    again = call("run", "--resume")
    assert again.exit_code == 0, again.output
    assert parity(out) == {"from": PARITY}
    assert aws.ran.count(PARITY) == 1


def test_stopped_instance_that_existed_is_gone_for_good(call, aws):
    instance = aws.new_instance()
    aws.inject("SendCommand", lambda r, f: [aws.terminate(instance), f(r)][1], "poll")
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 10 and "go on: python scripts/hw_bench.py run" in result.output
    again = call("run", "--resume")
    assert again.exit_code == 10
    assert again.output == f"hw_bench: instance {instance} is terminated (exit code 10)\n"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"Status": "TimedOut", "StatusDetails": "ExecutionTimedOut"}, 9),
        ({"Status": "Failed", "StatusDetails": "Undeliverable"}, 9),
        ({"Status": "Cancelled", "StatusDetails": "Cancelled"}, 8),
    ],
    ids=["time-out", "undeliverable", "cancelled"],
)
def test_commands_fail(call, aws, out, changes, code):
    fault = aws.inject("GetCommandInvocation", invocation(**changes), "chunk", times=ALWAYS)
    instance = aws.new_instance()
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == code, result.output
    assert not (out / "parity.json").exists()
    assert aws.state(instance) == "stopped"
    fault.times = 0
    again = call("run", "--resume")
    assert again.exit_code == 0, again.output
    assert aws.ran == [PARITY]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 3],
        flip,
    ],
    ids=["cut", "changed"],
)
def test_damaged_results_are_never_used(call, aws, out, change):
    fault = aws.inject("GetCommandInvocation", change_output(change), "chunk", times=ALWAYS)
    template = aws.new_template()
    result = call("run", "--template", template, "--sets", "parity")
    assert result.exit_code == 12, result.output
    assert sorted(path.name for path in out.iterdir()) == ["job.json", "run.log"]
    assert aws.states() == ["stopped"]  # with its disk: there is something to fetch
    fault.times = 0
    again = call("run", "--resume")
    assert again.exit_code == 0, again.output
    assert parity(out) == {"from": PARITY}
    assert aws.ran == [PARITY] and aws.states() == ["terminated"]


def test_disk_with_results_survives_a_resume_that_fails(call, aws, out):
    aws.inject("GetCommandInvocation", change_output(flip), "chunk", times=4)
    assert call("run", "--template", aws.new_template(), "--sets", "parity").exit_code == 12
    aws.is_online = False
    assert call("run", "--resume").exit_code == 7
    assert aws.states() == ["stopped"]
    aws.is_online = True
    again = call("run", "--resume", "--hours", "1")
    assert again.exit_code == 0, again.output
    assert "1 h" in again.output
    assert aws.ran == [PARITY] and aws.states() == ["terminated"]


S3 = ("--sets", "parity", "--bucket", "results")


FETCHES = {
    "services": [
        ("GetObject", error("InternalError", 500), 1),
        ("PutObject presigned", error("InternalError", 500), 0),
        ("PutObject", close, 0),
    ],
    "payloads": [
        ("GetObject presigned", body(lambda content: content[: len(content) // 2]), 0),
        ("GetObject", body(lambda content: content.replace(b"a", b"b")), 1),
        ("GetObject", body(lambda content: content[:-5]), 1),
        ("PutObject presigned", close, 0),
    ],
}


@pytest.mark.parametrize("faults", FETCHES.values(), ids=FETCHES)
def test_s3_fails_and_recovers(call, aws, out, faults):
    aws.s3.create_bucket(Bucket="results")
    injected = [aws.inject(name, function, skip=skip) for name, function, skip in faults]
    result = call("run", "--instance", aws.new_instance(), *S3)
    assert result.exit_code == 0, result.output
    assert all(fault.struck for fault in injected)
    assert parity(out) == {"from": PARITY}


def test_instance_cannot_upload(call, aws, out):
    """The first URLs of the instance do not work, and the URL that it gets later works."""
    aws.s3.create_bucket(Bucket="results")
    aws.inject("PutObject presigned", error("AccessDenied", 403), times=3)
    result = call("run", "--instance", aws.new_instance(), *S3)
    assert result.exit_code == 0, result.output
    assert parity(out) == {"from": PARITY}


@pytest.mark.parametrize(
    ("code", "exit_code"), [("AccessDenied", 4), ("PreconditionFailed", 15), ("SlowDown", 5)]
)
def test_s3_refuses(call, aws, code, exit_code):
    aws.s3.create_bucket(Bucket="results")
    status = 503 if code == "SlowDown" else 403
    aws.inject("PutObject", error(code, status), times=ALWAYS)
    instance = aws.new_instance()
    result = call("run", "--instance", instance, *S3)
    assert result.exit_code == exit_code, result.output
    assert aws.state(instance) == "stopped"


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "VcpuLimitExceeded"])
def test_no_capacity(call, aws, code):
    instance, template = aws.new_instance(), aws.new_template()
    aws.inject("RunInstances", error(code, 500 if "Capacity" in code else 400), times=ALWAYS)
    aws.inject("StartInstances", error(code, 500 if "Capacity" in code else 400), times=ALWAYS)
    result = call("run", "--template", template, "--sets", "parity")
    assert result.exit_code == 6, result.output
    assert aws.states() == ["stopped"]
    aws.faults.pop(0)
    assert call("run", "--resume").exit_code == 0
    other = call("run", "--instance", instance, "--out", str(aws.folder / "other"))
    assert other.exit_code == 6, other.output
    assert aws.state(instance) == "stopped"


def test_instance_that_cannot_be_stopped(call, aws):
    aws.is_online = False
    aws.inject("StopInstances", error("UnauthorizedOperation", 403), times=ALWAYS)
    instance = aws.new_instance()
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 14, result.output
    assert (
        "AmazonSSMManagedInstanceCore" in result.output
        and f"cannot stop {instance}" in result.output
    )
    aws.faults.clear()
    assert call("stop").exit_code == 0
    assert aws.state(instance) == "stopped"


def test_set_fails(call, aws, out):
    aws.behave({PARITY: {"exit": 3}})
    instance = aws.new_instance()
    result = call("run", "--instance", instance, *TWO)
    assert result.exit_code == 1, result.output
    assert "parity failed (exit code 3)" in result.output
    assert parity(out) == {"from": PARITY}  # failures are results, too
    assert (out / "accuracy.json").exists()
    assert aws.state(instance) == "stopped"
    assert call("run", "--resume").exit_code == 1
    assert aws.ran == [PARITY, ACCURACY]


def test_set_writes_nothing(call, aws, out):
    aws.behave({PARITY: {"writes_nothing": True}})
    result = call("run", "--instance", aws.new_instance(), "--sets", "parity")
    assert result.exit_code == 1
    assert "parity.json was not written" in result.output
    assert (out / "parity.log").exists()


def test_results_that_the_instance_cannot_write(call, aws, out):
    fill = "import os; os.mkdir('../parity.payload')"
    aws.behave({PARITY: {"do": fill}})
    result = call("run", "--template", aws.new_template(), *TWO)
    assert result.exit_code == 1, result.output
    assert "Is a directory" in result.output
    assert (out / "accuracy.json").exists() and not (out / "parity.json").exists()
    assert aws.states() == ["stopped"]
    (obstacle,) = aws.folder.glob("instances/*/trnfft-jobs/*/parity.payload")
    obstacle.rmdir()
    aws.behave({})
    assert call("run", "--resume").exit_code == 0
    assert aws.ran == [PARITY, ACCURACY, PARITY]


def test_disk_of_the_instance_is_full_at_the_upload(call, aws):
    def strike(request, forward):
        (folder,) = aws.disk(instance).glob("trnfft-jobs/*")
        (folder / "revision.part").symlink_to("/dev/full")
        return forward(request)

    instance = aws.new_instance()
    aws.inject("SendCommand", strike, "receive")
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 8, result.output
    assert "No space left on device" in result.output
    assert aws.state(instance) == "stopped"


def test_job_on_the_instance_is_killed(call, aws, gate, midway):
    def strike(request, forward):
        aws.kill(instance)
        return forward(request)

    instance = aws.new_instance()
    aws.inject("SendCommand", strike, "poll", when=midway)
    result = call("run", "--instance", instance, *TWO)
    assert result.exit_code == 8, result.output
    gate.touch()
    assert call("run", "--resume").exit_code == 0
    assert aws.ran.count(PARITY) == 1 and aws.ran.count(ACCURACY) == 2


def test_time_limit_before_anything_ran(call, aws):
    aws.s3.create_bucket(Bucket="results")
    result = call("run", "--template", aws.new_template(), *S3, "--hours", "0.00001")
    assert result.exit_code == 13, result.output
    assert aws.ran == [] and aws.states() == ["terminated"]


@pytest.mark.slow
def test_time_limit(call, aws, gate, out):
    result = call("run", "--template", aws.new_template(), *TWO, "--hours", "0.002")
    assert result.exit_code == 13, result.output
    assert parity(out) == {"from": PARITY}
    assert "running bench.accuracy" in (out / "accuracy.log").read_text()
    assert aws.states() == ["terminated"]
    gate.touch()
    assert call("run", "--resume", "--hours", "1").exit_code == 0
    assert aws.ran == [PARITY, ACCURACY, ACCURACY]


def test_no_pip_no_run(call, aws):
    (aws.venv / "bin" / "python").write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    instance = aws.new_instance()
    result = call("run", "--instance", instance, "--sets", "parity")
    assert result.exit_code == 1, result.output
    assert aws.state(instance) == "stopped"


def test_no_credentials(call, aws, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    result = call("run", "--instance", "i-0123")
    assert result.exit_code == 4 and "Unable to locate credentials" in result.output


@pytest.mark.parametrize(
    ("operation", "code", "status", "minutes", "words"),
    [
        ("SendCommand", "InvalidSignatureException", 400, 12, "12 minutes behind"),
        ("StartInstances", "AuthFailure", 401, -7, "7 minutes ahead"),
        ("PutObject", "RequestTimeTooSkewed", 403, -600, "600 minutes ahead"),
    ],
)
def test_a_clock_that_is_wrong_is_named(call, aws, operation, code, status, minutes, words):
    def strike(request, forward):
        response = error(code, status)(request, forward)
        response.headers["Date"] = formatdate(time.time() + 60 * minutes, usegmt=True)
        return response

    aws.s3.create_bucket(Bucket="results")
    aws.inject(operation, strike, times=ALWAYS)
    result = call("run", "--instance", aws.new_instance(), *S3)
    assert result.exit_code == 4, result.output
    assert f"The clock here is {words}" in result.output


def test_time_limits_do_not_follow_a_clock_that_is_set(call, aws, monkeypatch):
    """The clock jumps by a day between any two readings."""
    days = itertools.count()

    def later():
        return 1e9 + 86_400 * next(days)

    clock = SimpleNamespace(
        time=later,
        monotonic=time.monotonic,
        sleep=time.sleep,
        strftime=time.strftime,
        localtime=time.localtime,
    )
    monkeypatch.setattr("remote.run.time", clock)
    monkeypatch.setattr("remote.lifetime.time", clock)
    instance = aws.new_instance()
    aws.inject("StopInstances", lambda r, f: [armed.append(aws.shutdown_time(instance)), f(r)][1])
    armed = []
    result = call("run", "--instance", instance, *TWO, "--hours", "1")
    assert result.exit_code == 0, result.output
    assert armed[-1] in ("+60", "+61")


NO_COMMITS = ("--output=pwned", "HEAD", "0123abc", "ABCDEF" * 6 + "0123", "0" * 40 + "^", "0" * 40)


def test_a_commit_that_is_none_never_reaches_git_archive(call, aws, out, repository):
    aws.inject("SendCommand", error("AccessDeniedException"), "start")
    template = aws.new_template()
    assert call("run", "--template", template, "--sets", "parity").exit_code == 4
    record = json.loads((out / "job.json").read_text())
    before = len(aws.requests)
    for commit in NO_COMMITS:
        (out / "job.json").write_text(json.dumps({**record, "commit": commit}))
        result = call("run", "--resume")
        assert result.exit_code == 2, result.output
        complaint = (
            f"the commit {commit} is not in" if commit == "0" * 40 else f"{commit!r}; allowed"
        )
        assert complaint in result.output
    assert len(aws.requests) == before
    assert not list(repository.rglob("pwned")) and not Path("pwned").exists()


def test_signed_urls_are_in_no_argument_and_in_no_file(call, aws, gate, midway):
    aws.s3.create_bucket(Bucket="results")
    instance = aws.new_instance()
    found, shown = [], ("cmdline", "environ")

    def look(request, forward):
        home = aws.disk(instance)
        found.extend(file for file in home.rglob("*") if file.is_file() and signed(file))
        for pid in aws.background(instance):
            found.extend(
                file
                for file in Path(f"/proc/{pid}").glob("*")
                if file.name in shown and signed(file)
            )
        gate.touch()
        return forward(request)

    def signed(file):
        return b"X-Amz-Signature" in file.read_bytes()

    aws.inject("SendCommand", look, "poll", when=midway)
    result = call("run", "--instance", instance, *TWO, "--bucket", "results")
    assert result.exit_code == 0, result.output
    assert aws.operations("PutObject presigned") and aws.operations("GetObject presigned")
    argv = (aws.disk(instance) / "argv").read_text()
    assert "worker.zip download" in argv and "worker.zip start" in argv
    assert found == []


REGIONS = {
    "both variables": ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
    "an empty one": ({"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
    "the profile": ({"AWS_CONFIG_FILE": "config"}, "eu-west-3"),
    "none": ({}, None),
    "no region": ({"AWS_REGION": "us west"}, None),
}


@pytest.mark.parametrize(("variables", "expected"), REGIONS.values(), ids=REGIONS)
def test_region(call, aws, monkeypatch, tmp_path, variables, expected):
    """The first request is signed for the region that it goes to."""
    monkeypatch.chdir(tmp_path)
    Path("config").write_text("[default]\nregion = eu-west-3\n")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = call("run", "--instance", "i-0123")
    if expected is None:
        assert result.exit_code == 2 and not aws.requests
        assert "set AWS_REGION, AWS_DEFAULT_REGION or" in result.output
    else:
        assert result.exit_code == 10, result.output  # there is no such instance
        assert f"/{expected}/ec2/" in aws.requests[0].headers["Authorization"]


def test_a_job_goes_on_in_its_region(call, aws, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert call("run", "--instance", aws.new_instance(), "--sets", "parity").exit_code == 0
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    count = len(aws.requests)
    assert call("status").exit_code == 0
    assert all("/us-east-1/" in one.headers["Authorization"] for one in aws.requests[count:])
    assert len(aws.requests) > count


def test_resume_runs_the_commit_of_the_job(call, aws, repository, gate, out):
    aws.inject("SendCommand", error("AccessDeniedException"), "start")
    assert call("run", "--instance", aws.new_instance(), "--sets", "parity").exit_code == 4
    (repository / "pyproject.toml").write_text("[project]\nname = 'changed'\n")
    os.system(f"git -C {repository} commit -qam second")
    aws.behave({PARITY: {"do": "print(open('pyproject.toml').read())"}})
    assert call("run", "--resume").exit_code == 0
    assert "changed" not in (out / "parity.log").read_text()


def test_signal_during_a_run(call, aws, gate, midway, out):
    number = signal.SIGTERM

    def strike(request, forward):
        os.kill(os.getpid(), number)
        return forward(request)

    before = signal.getsignal(number)
    aws.inject("SendCommand", strike, "poll", when=midway)
    result = call("run", "--template", aws.new_template(), *TWO)
    assert result.exit_code == 128 + number, result.output
    assert set(aws.states()) <= {"stopped", "terminated"}
    assert signal.getsignal(number) == before
    gate.touch()
    assert call("run", "--resume").exit_code == 0
    assert parity(out) == {"from": PARITY}
    assert aws.states()[-1] == "terminated" and aws.ran.count(PARITY) == 1


def test_signal_during_the_launch(call, aws):
    def strike(request, forward):
        response = forward(request)
        os.kill(os.getpid(), signal.SIGTERM)
        return response

    aws.inject("RunInstances", strike)
    result = call("run", "--template", aws.new_template(), "--sets", "parity")
    assert result.exit_code == 143, result.output
    assert aws.states() == ["terminated"]


def test_signal_ends_the_job_on_an_instance_that_runs_on(call, aws, midway):
    instance = aws.new_instance(stopped=False)

    def strike(request, forward):
        os.kill(os.getpid(), signal.SIGINT)
        return forward(request)

    aws.inject("SendCommand", strike, "poll", when=midway)
    result = call("run", "--instance", instance, *TWO)
    assert result.exit_code == 130, result.output
    assert aws.state(instance) == "running" and not aws.background(instance)

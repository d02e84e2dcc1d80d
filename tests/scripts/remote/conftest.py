"""Fixtures: a fake AWS, a small repository to run, and scripts/hw_bench.py with short waits."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

for package in ("boto3", "moto.server", "typer"):  # of the extras bench and dev
    pytest.importorskip(package)

from botocore.loaders import JSONFileLoader  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from .fake_aws import FakeAws, Port  # noqa: E402

SCRIPTS = Path(__file__).parents[3] / "scripts"
PACE = {
    "POLL": 0.05,
    "STATE": 0.02,
    "COMMAND": 0.01,
    "START": 0.4,
    "END": 0.3,
    "PATIENCE": 0.3,
    "COMMAND_LIMIT": 20.0,
    "GRACE": 60.0,
    "ATTEMPTS": 3,
}
# Runs hw_bench in a process of its own, which tests kill.
PROGRAM = """\
import json, pathlib, sys
import hw_bench
from remote import pace

root, settings, *arguments = sys.argv[1:]
for name, value in json.loads(settings).items():
    setattr(pace, name, value)
hw_bench.ROOT = pathlib.Path(root)
hw_bench.app(arguments)
"""


def set_environment(patch):
    """Removes credentials, files and endpoints of the user from the environment."""
    others = ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL")
    for name in (*others, "PIP_CONFIG_FILE"):
        patch.delenv(name, raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        "NO_PROXY": "*",
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # a thousand, at every reset
    }.items():
        patch.setenv(name, value)


@pytest.fixture(scope="session")
def port():
    """Returns the port of the fake AWS. botocore reads its large models once for all tests."""
    load = functools.lru_cache(maxsize=None)(JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda self, path: load(path))
        with pytest.MonkeyPatch.context() as of_clients:
            set_environment(of_clients)
            port = Port()
        yield port


@pytest.fixture(autouse=True)
def dummy_environment(monkeypatch):
    """Makes tests read no files of the user and call no real AWS."""
    set_environment(monkeypatch)


@pytest.fixture
def aws(port, dummy_environment, monkeypatch, tmp_path):
    """Yields a fresh AWS that boto3 finds through the environment."""
    fake = FakeAws(port, tmp_path / "aws")
    monkeypatch.setenv("AWS_ENDPOINT_URL", port.url)
    yield fake
    fake.close()


def git(root, *arguments):
    subprocess.run(["git", "-C", root, *arguments], check=True)


@pytest.fixture(scope="session")
def first_commit(tmp_path_factory):
    """Returns a repository with one commit, for copies."""
    root = tmp_path_factory.mktemp("repository")
    (root / "pyproject.toml").write_text("[project]\n")
    git(root, "init", "-q", "--template=")
    git(root, "config", "user.name", "Tester")
    git(root, "config", "user.email", "tester@example.com")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def repository(first_commit, tmp_path):
    """Returns a checked-out repository with one commit."""
    return Path(shutil.copytree(first_commit, tmp_path / "repository"))


@pytest.fixture
def hw_bench(repository, monkeypatch):
    """Returns the module hw_bench, which works in the small repository and without long waits."""
    import hw_bench
    from remote import pace

    monkeypatch.setattr(hw_bench, "ROOT", repository)
    for name, value in PACE.items():
        monkeypatch.setattr(pace, name, value)
    # botocore waits up to 20 s between attempts.
    patient = SimpleNamespace(sleep=lambda seconds: None, time=time.time)
    monkeypatch.setattr("botocore.endpoint.time", patient)
    return hw_bench


@pytest.fixture
def out(tmp_path):
    """Returns the output folder of `call` and `process`."""
    return tmp_path / "out"


@pytest.fixture
def call(hw_bench, aws, out):
    """Returns a function that runs a command of hw_bench, and checks its exit code."""

    def run(command: str, *arguments: str, code: int = 0, venv: bool = True):
        options = ["--out", str(out)]
        if venv and command == "run" and "--resume" not in arguments:
            options += ["--venv", str(aws.venv)]
        result = CliRunner().invoke(hw_bench.app, [command, *options, *arguments])
        assert result.exit_code == code, result.output
        return result.output

    return run


@pytest.fixture
def gate(tmp_path, aws):
    """Returns the file for which the accuracy set waits, after the parity set has finished."""
    path = tmp_path / "gate"
    aws.behave({"bench.accuracy": {"until": str(path)}})
    return path


@pytest.fixture
def midway(aws, out, gate):
    """Returns a function: whether the results of parity are here, and accuracy runs."""
    return lambda: (out / "parity.json").exists() and "bench.accuracy" in aws.ran


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def process(aws, out, tmp_path, repository):
    """Yields a function that starts hw_bench as a process of its own."""
    started = []

    def start(*arguments: str) -> subprocess.Popen:
        words = ["run", "--out", str(out), "--venv", str(aws.venv), *arguments]
        command = [sys.executable, "-c", PROGRAM, repository, json.dumps(PACE), *words]
        environment = {**os.environ, "PYTHONPATH": f"{SCRIPTS}:{SCRIPTS.parent}"}
        with open(tmp_path / "output", "w") as output:
            started.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()

"""Fixtures: a fake AWS, a small repository to run, and scripts/hw_bench.py with short waits."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

for package in ("boto3", "moto.server", "typer"):  # of the extras bench and dev
    pytest.importorskip(package)

import boto3  # noqa: E402
from botocore.loaders import JSONFileLoader  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from remote.job import worker_archive  # noqa: E402

from .fake_aws import FakeAws, Moto, Proxy  # noqa: E402
from .program import Program, ProgramServer  # noqa: E402
from .python_server import PythonServer  # noqa: E402

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


@pytest.fixture(autouse=True, scope="session")
def quick_and_quiet():
    """Makes botocore read its large models once and make equal clients once, and silences moto."""
    load = functools.lru_cache(maxsize=None)(JSONFileLoader().load_file)
    make, made = boto3.Session.client, {}

    def client(self, *arguments, config=None, **options):
        credentials = self.get_credentials()
        if credentials is None or credentials.method != "env":
            # This is a dry run, whose clients have handlers of their own.
            return make(self, *arguments, config=config, **options)
        chosen = getattr(config, "_user_provided_options", None)
        settings = [(key, value) for key, value in os.environ.items() if key.startswith("AWS_")]
        key = repr((arguments, options, chosen, self.region_name, sorted(settings)))
        if key not in made:
            made[key] = make(self, *arguments, config=config, **options)
        return made[key]

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda self, path: load(path))
        patch.setattr(boto3.Session, "client", client)
        yield


@pytest.fixture(scope="session")
def moto(quick_and_quiet):
    """Returns one moto for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        set_environment(patch)
        return Moto()


@pytest.fixture(scope="session")
def proxy():
    """Yields one proxy, with one port, for all tests."""
    proxy = Proxy()
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """Yields one Python for the commands of all instances."""
    server = PythonServer(tmp_path_factory.mktemp("python"), worker_archive())
    yield server
    server.close()


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


@pytest.fixture(autouse=True)
def dummy_environment(monkeypatch):
    """Makes tests read no files of the user and call no real AWS."""
    set_environment(monkeypatch)


@pytest.fixture
def aws(moto, proxy, python, dummy_environment, monkeypatch, tmp_path):
    """Yields a fresh AWS that boto3 finds through the environment."""
    fake = FakeAws(moto, proxy, python, tmp_path / "aws")
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    yield fake
    fake.close()


@pytest.fixture(scope="session")
def first_commit(tmp_path_factory):
    """Returns a repository with one commit, for copies."""
    root = tmp_path_factory.mktemp("repository")
    (root / "pyproject.toml").write_text("[project]\n")
    for arguments in (
        ["init", "-q", "--template="],
        ["config", "user.name", "Tester"],
        ["config", "user.email", "tester@example.com"],
        ["add", "-A"],
        ["commit", "-qm", "first"],
    ):
        subprocess.run(["git", "-C", root, *arguments], check=True)
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
    monkeypatch.setattr("os.fsync", lambda number: None)  # takes milliseconds
    return hw_bench


@pytest.fixture
def call(hw_bench, aws, tmp_path):
    """Returns a function that runs a command of hw_bench with the output folder tmp_path/out."""

    def run(command: str, *arguments: str, venv: bool = True):
        options = ["--out", str(tmp_path / "out")]
        if venv and command == "run" and "--resume" not in arguments:
            options += ["--venv", str(aws.venv)]
        return CliRunner().invoke(hw_bench.app, [command, *options, *arguments])

    return run


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="session")
def programs():
    """Yields the server from which processes of hw_bench are forked."""
    server = ProgramServer()
    yield server
    server.close()


@pytest.fixture
def process(aws, programs, tmp_path, repository):
    """Yields a function that starts hw_bench as a process of its own."""
    started = []

    def start(*arguments: str) -> Program:
        options = ["--out", str(tmp_path / "out"), "--venv", str(aws.venv)]
        words = ["run", *options, *arguments]
        started.append(programs.start(words, repository, PACE, tmp_path / "output"))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()

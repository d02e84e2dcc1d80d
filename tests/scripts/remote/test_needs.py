"""What the dry run says about the real run, without a call to AWS."""

from __future__ import annotations

import re
import subprocess

import pytest

from remote import needs
from remote.cost import PRICES
from remote.job import size_of

from .program import SCRIPTS

DOCUMENTATION = SCRIPTS.parent / "docs" / "hardware.md"


@pytest.fixture
def files(monkeypatch, tmp_path):
    """Writes files of the AWS command line, in an environment without credentials."""
    for name in needs.KEYS:
        monkeypatch.delenv(name)
    for variable, name in {
        "AWS_CONFIG_FILE": "config",
        "AWS_SHARED_CREDENTIALS_FILE": "credentials",
    }.items():
        monkeypatch.setenv(variable, str(tmp_path / name))

    def write(config="", credentials=""):
        (tmp_path / "config").write_text(config)
        (tmp_path / "credentials").write_text(credentials)

    return write


def words(output: str) -> dict[str, str]:
    """The rows of the last table, each as one line."""
    table = output[output.index("What the real run needs") :]
    found: dict[str, str] = {}
    name = ""
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) == 2:
            name = cells[0] or name
            found[name] = f"{found.get(name, '')} {cells[1]}".strip()
    return found


def test_region_and_where_it_comes_from(files, monkeypatch):
    assert needs.region() == ("us-east-1", "the variable AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "ap-southeast-4")
    assert needs.region() == ("ap-southeast-4", "the variable AWS_REGION")
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert needs.region() == (None, "the profile 'default'")
    files("[profile lab]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    assert needs.region() == ("eu-north-1", "the profile 'lab'")


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("config", "credentials", "expected"),
    [
        ("", "", None),
        ("", "[default]\naws_access_key_id = a\naws_secret_access_key = b\n", "an access key"),
        ("[default]\nrole_arn = arn:x\nsource_profile = y\n", "", "the role arn:x"),
        ("[default]\nsso_session = lab\nsso_account_id = 1\n", "", "the AWS SSO session lab"),
        ("[default]\ncredential_process = false\n", "", "which was not run"),
    ],
)
def test_credentials_are_looked_for_on_this_machine(files, config, credentials, expected):
    files(config, credentials)
    found = needs.credentials()
    if expected is None:
        assert found is None
    else:
        assert found is not None and "the profile 'default'" in found and expected in found


@pytest.mark.sweep
def test_credentials_of_variables_come_first(monkeypatch):
    assert needs.credentials() == "the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert needs.credentials() is None


@pytest.mark.sweep
def test_the_dry_run_says_what_the_real_run_needs(call, aws, repository):
    result = call("run", "--dry-run", "--template", "trnfft", "--sets", "parity,accuracy")
    assert result.exit_code == 0, result.output
    assert not aws.requests
    found = words(result.output)
    assert found["region"] == "us-east-1, from the variable AWS_DEFAULT_REGION."
    assert "boto3 will take the variables AWS_ACCESS_KEY_ID" in found["credentials"]
    archive = subprocess.run(
        ["git", "-C", repository, "archive", "--format=tar.gz", "HEAD"],
        capture_output=True,
        check=True,
    ).stdout
    size = size_of(len(archive))
    assert f"packs it into {size}, in 1 commands of up to 24.0 kB" in found["revision"]
    assert "template trnfft" in found["image"]
    assert str(aws.venv) in found["environment"].replace(" ", "")
    assert "12 vCPUs of a trn2.3xlarge" in found["quota"]
    assert found["S3 bucket"].startswith("None")
    for action in ("ec2:RunInstances", "ssm:SendCommand", "iam:PassRole", "ec2:CreateTags"):
        assert action in found["permissions"]
    assert "s3:" not in found["permissions"]
    assert found["time, likely"].startswith("2 min and more") and "1.5 min" in found["time, likely"]
    # Two hours, and a minute and 0.4 s in these tests, at 2.235 dollars.
    assert found["cost at most"].startswith("$4.51 for a trn2.3xlarge")


@pytest.mark.sweep
def test_the_dry_run_with_an_instance_and_a_bucket(call, aws):
    options = ("--instance", "i-1", "--bucket", "results", "--sets", "parity")
    found = words(call("run", "--dry-run", *options, venv=False).output)
    assert found["image"] == "The run looks up none: the instance of instance i-1 has its image."
    assert "scripts/wheels-neuron-trn2.txt" in found["environment"]
    assert "one upload to the bucket results" in found["revision"]
    assert "exit code 2 where there is no such bucket" in found["S3 bucket"]
    for action in ("ec2:StartInstances", "s3:GetObject", "s3:PutObject", "s3:ListBucket"):
        assert action in found["permissions"]
    assert "iam:PassRole" not in found["permissions"]


@pytest.mark.sweep
def test_the_dry_run_says_what_the_real_run_would_refuse(
    call, aws, files, repository, monkeypatch, tmp_path
):
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    (repository / "pyproject.toml").write_text("changed")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "job.json").write_text("{}")
    result = call("run", "--dry-run", "--template", "trnfft")
    assert result.exit_code == 0, result.output
    found = words(result.output)
    assert "There is none" in found["region"] and "exit code 2" in found["region"]
    assert "None were found" in found["credentials"] and "exit code 4" in found["credentials"]
    assert "1 files have changes" in found["revision"] and "exit code 2" in found["revision"]
    assert "holds a job already" in found["output folder"].replace("  ", " ")


@pytest.mark.sweep
def test_numbers_of_processors_are_those_of_ec2_and_of_the_documentation():
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    for name, count in needs.VCPUS.items():
        assert INSTANCE_TYPES[name]["VCpuInfo"]["DefaultVCpus"] == count
    assert set(needs.VCPUS) == set(PRICES)
    text = " ".join(DOCUMENTATION.read_text().split())
    said = {name: int(count) for count, name in re.findall(r"(\d+) for a (trn\S+\w)", text)}
    assert said and said.items() <= needs.VCPUS.items()


@pytest.mark.sweep
def test_the_documentation_has_the_size_of_the_revision():
    """Within a quarter of what git packs today."""
    root = SCRIPTS.parent
    archive = subprocess.run(
        ["git", "-C", root, "archive", "--format=tar.gz", "HEAD"], capture_output=True
    )
    if archive.returncode:
        pytest.skip("this folder is no repository of git")
    (said,) = re.findall(r"about ([\d.]+) MB", DOCUMENTATION.read_text())
    assert float(said) == pytest.approx(len(archive.stdout) / 1e6, rel=0.25)

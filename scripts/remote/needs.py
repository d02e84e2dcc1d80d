"""What a run asks of AWS and how long it lasts, worked out without asking AWS.

The dry run shows these sentences. Each says where its figure comes from, or that nobody has it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import boto3
import botocore.session

from remote import pace, record
from remote.cost import Estimate
from remote.failure import SET_A_REGION, translated
from remote.job import CHUNK, WHEELS, size_of
from remote.record import Record
from remote.revision import Revision
from remote.sets import SETS

REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")  # in the order in which they count
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
# Settings of a profile, in boto3's order, and the credentials that boto3 gets by them.
PROFILE_SETTINGS = {
    "role_arn": "the role {value}, which boto3 will ask AWS for",
    "sso_session": "the AWS SSO session {value} (`aws sso login`)",
    "sso_start_url": "AWS SSO at {value} (`aws sso login`)",
    "aws_access_key_id": "an access key",
    "login_session": "the session of `aws login`",
    "credential_process": "the program of its setting credential_process, which was not run",
}
QUOTA = '"Running On-Demand Trn instances" (L-2C3B7624)'
# As AWS's list of instance types has them: aws.amazon.com/ec2/instance-types.
VCPUS = {
    "trn2.3xlarge": 12,
    "trn2.48xlarge": 192,
    "trn1.2xlarge": 8,
    "trn1.32xlarge": 128,
    "trn1n.32xlarge": 128,
}
# Actions that AWS checks beside those of the calls: docs/hardware.md has the whole policy.
BESIDE = {"template": ["iam:PassRole", "ec2:CreateTags"], "bucket": ["s3:ListBucket"]}


def region() -> tuple[str | None, str]:
    """Returns the region that a run would use, and what sets it; None where nothing does."""
    for name in REGION_VARIABLES:
        if value := os.environ.get(name):
            return value, f"the variable {name}"
    with translated():
        session = boto3.Session()
        return session.region_name, f"the profile {session.profile_name!r}"


def credentials() -> str | None:
    """Returns what boto3 would take credentials from; None where nothing on this machine has any.

    Only variables and files are read: no program is run, and no address is asked.
    """
    if all(os.environ.get(name) for name in KEYS):
        return f"the variables {' and '.join(KEYS)}"
    with translated():
        session = botocore.session.get_session()
        name = session.profile or "default"
        settings = session.full_config.get("profiles", {}).get(name, {})
    for key, text in PROFILE_SETTINGS.items():
        if value := settings.get(key):
            return f"the profile {name!r}, with {text.format(value=value)}"
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and os.environ.get("AWS_ROLE_ARN"):
        return "the variables AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN"
    return None


def rows(
    job: Record,
    sets: Sequence[str],
    revision: Revision,
    out: Path,
    instance_type: str,
    calls: Sequence[str],
) -> dict[str, str]:
    """Returns what the real run asks for, by name, in whole sentences.

    Args:
        sets: the names of the sets that will run.
        out: the folder for the results of the real run.
        instance_type: the type that the dry run assumes.
        calls: "service.Operation" of every call of the dry run, in order, repeated ones included.
    """
    return {
        "region": region_row(),
        "credentials": credentials_row(),
        "revision": revision_row(job, revision),
        "output folder": folder_row(out),
        "image": image_row(job),
        "environment": environment_row(job, instance_type),
        "quota": quota_row(job, instance_type),
        "instance profile": profile_row(job),
        "S3 bucket": bucket_row(job),
        "permissions": permissions_row(job, calls),
        "time, likely": likely_row(sets, calls),
        "time at most": most_row(job),
        "cost at most": cost_row(job, instance_type),
    }


def region_row() -> str:
    found, source = region()
    if found is None:
        return (
            f"There is none, and the run would end with exit code 2: {SET_A_REGION}. The calls "
            "above show us-east-1."
        )
    return f"{found}, from {source}."


def credentials_row() -> str:
    found = credentials()
    if found:
        return (
            f"boto3 will take {found}. Whether AWS accepts them is known after the first call: if "
            "not, the run ends with exit code 4."
        )
    return (
        f"None were found. boto3 will look at the variables {' and '.join(KEYS)}, at the profile "
        "in ~/.aws/credentials and ~/.aws/config, and, on an EC2 instance, at the instance's "
        "role. Run `aws configure` or `aws sso login`: without credentials the run ends with exit "
        "code 4."
    )


def revision_row(job: Record, revision: Revision) -> str:
    size = len(revision.archive())
    way = (
        f"one upload to the bucket {job.bucket}"
        if job.bucket
        else f"{math.ceil(size / CHUNK)} commands of up to {size_of(CHUNK)}"
    )
    text = f"Commit {revision.commit[:12]}: `git archive` packs it into {size_of(size)}, in {way}."
    if changed := revision.uncommitted():
        text += (
            f" {len(changed)} files have changes that are not committed, such as {changed[0]}. "
            "The run would refuse them with exit code 2: commit or stash them first."
        )
    return text


def folder_row(out: Path) -> str:
    if (out / record.NAME).exists():
        return (
            f"{out} holds a job already, and the run would end with exit code 2: go on with that "
            "job by --resume, or name another folder by --out."
        )
    return f"{out}: results, page.html, run.log, and job.json, by which --resume finds the job."


def image_row(job: Record) -> str:
    if job.kind != "template":
        return f"The run looks up none: the instance of {job.kind} {job.target} has its image."
    return (
        f"The ImageId in the default version of the launch template {job.target}. EC2 reads it "
        "when it launches the instance; resolve:ssm:... is looked up in Systems Manager then. The "
        "dry run reads no template. docs/hardware.md makes one with AWS's \"Deep Learning AMI "
        'Neuron torch-neuronx 2.14.0".'
    )


def environment_row(job: Record, instance_type: str) -> str:
    if job.venv:
        return (
            f"{job.venv} has to be on the image, from --venv. The job looks for it after the "
            "upload, and ends with exit code 1 where it is absent."
        )
    wheels = WHEELS[instance_type[:4]]
    return f"The job makes one on the instance from the pinned wheels of {wheels}."


def quota_row(job: Record, instance_type: str) -> str:
    others = ", ".join(
        f"{count} for a {name}" for name, count in VCPUS.items() if name != instance_type
    )
    text = (
        f"EC2 counts {VCPUS[instance_type]} vCPUs of a {instance_type} towards {QUOTA}. The number "
        f"is from AWS's list of instance types, which has {others}. "
    )
    if job.kind != "template":
        text += "An instance that runs already counts towards the quota. "
    return (
        f"{text}The run does not read the quota: where the quota is too small, or the zone has no "
        "capacity, EC2 refuses and the run ends with exit code 6."
    )


def profile_row(job: Record) -> str:
    where = "that the template names" if job.kind == "template" else "of the instance"
    return (
        f"The one {where}, with the policy AmazonSSMManagedInstanceCore. The run does not read it: "
        "where the instance does not answer Systems Manager within "
        f"{pace.START / 60:.0f} min, the run ends with exit code 7."
    )


def bucket_row(job: Record) -> str:
    if not job.bucket:
        return "None: revision and results travel through commands. --bucket names one."
    return (
        f"Objects under trnfft-jobs/ in {job.bucket} are read, written and deleted. The first call "
        "of S3 comes before anything costs money; the run ends with exit code 2 where there is no "
        "such bucket, and with 4 where the access is denied."
    )


def permissions_row(job: Record, calls: Sequence[str]) -> str:
    beside = BESIDE["template"] * (job.kind == "template") + BESIDE["bucket"] * bool(job.bucket)
    actions = {*(call.replace(".", ":") for call in calls), *beside}
    return (
        f"{', '.join(sorted(actions))}. The policy in docs/hardware.md allows them, and the calls "
        "of runs that end early. AWS checks each permission at its call: a missing one ends the "
        "run with exit code 4."
    )


def likely_row(sets: Sequence[str], calls: Sequence[str]) -> str:
    commands = calls.count("ssm.SendCommand")
    local = sum(SETS[name].simulated_minutes for name in sets)
    least = commands * pace.COMMAND / 60 + local
    return (
        f"{math.ceil(least)} min and more: {commands} commands of at least {pace.COMMAND:g} s, the "
        f"pause before the script asks for an answer, and {local:g} min that the programs of these "
        "sets lasted in the simulator on two processors (remote/sets.py). The start of the "
        "instance and the compilation for the NeuronCore are added. Nobody has measured either, or "
        "any set on a NeuronCore."
    )


def most_row(job: Record) -> str:
    return (
        f"{pace.START / 60:.0f} min for the start, {job.seconds / 3600:g} h for the job (--hours), "
        f"and {pace.GRACE / 60:.0f} min until the instance ends by itself. The script enforces "
        "these limits."
    )


def cost_row(job: Record, instance_type: str) -> str:
    estimate = Estimate.of(instance_type, job.seconds)
    if estimate.dollars is None:
        return f"Unknown: there is no price of {instance_type} here."
    return (
        f"${estimate.dollars:.2f} for a {instance_type}: the time at most, at {estimate.price}. "
        "Disks cost about $0.08 per GB and month beside that."
    )

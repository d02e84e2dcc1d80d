"""What a run asks of AWS and how long it lasts, worked out without asking AWS.

The dry run shows these sentences below its calls and its estimate of the cost. Each says where its
figure comes from, or that nobody has it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import boto3
import botocore.session

from remote import pace
from remote.cost import TYPES
from remote.failure import SET_A_REGION, translated
from remote.job import CHUNK, WHEELS, size_of
from remote.record import Record
from remote.revision import Revision
from remote.sets import SETS

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
# Actions that AWS checks beside those of the calls: docs/hardware.md has the whole policy.
BESIDE = ["iam:PassRole", "ec2:CreateTags"]  # of launches


def region() -> tuple[str | None, str]:
    """Returns the region that a run would use, and what sets it; None where nothing does."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):  # in the order in which they count
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
    job: Record, sets: Sequence[str], revision: Revision, calls: Sequence[str]
) -> dict[str, str]:
    """Returns what the real run asks for, by name, in whole sentences.

    Args:
        sets: the names of the sets that will run.
        calls: "service.Operation" of every call of the dry run, in order, repeated ones included.
    """
    return {
        "region": region_row(),
        "credentials": credentials_row(),
        "revision": revision_row(job, revision),
        **instance_rows(job),
        "permissions": permissions_row(job, calls),
        "time, likely": likely_row(sets, calls),
    }


def region_row() -> str:
    found, source = region()
    if found:
        return f"{found}, from {source}."
    return (
        f"There is none, and the run would end with exit code 2: {SET_A_REGION}. The calls above "
        "show us-east-1."
    )


def credentials_row() -> str:
    if found := credentials():
        return f"boto3 will take {found}. If AWS refuses them, the run ends with exit code 4."
    return (
        f"None were found in the variables {' and '.join(KEYS)} and in the profile. Run `aws "
        "configure` or `aws sso login`: without credentials, and without the role of an EC2 "
        "instance, the run ends with exit code 4."
    )


def revision_row(job: Record, revision: Revision) -> str:
    size = len(revision.archive())
    way = f"{math.ceil(size / CHUNK)} commands of up to {size_of(CHUNK)}"
    text = f"Commit {revision.commit[:12]}: `git archive` packs it into {size_of(size)}, in {way}."
    if changed := revision.uncommitted():
        text += (
            f" {len(changed)} files have changes that are not committed, such as {changed[0]}. "
            "The run would refuse them with exit code 2: commit or stash them first."
        )
    return text


def instance_rows(job: Record) -> dict[str, str]:
    """Returns what has to be on the instance, and what it counts for."""
    named = job.instance_type
    owner = f"the {job.kind} {job.target}"
    environment = f"{job.venv} has to be on the image: the run ends with exit code 1 without it."
    if not job.venv:
        wheels = WHEELS[named[:4]]
        environment = f"The job makes one on the instance from the pinned wheels of {wheels}."
    return {
        "image": f"That of {owner}. The dry run looks up none.",
        "environment": environment,
        "quota": f"{TYPES[named].vcpus} vCPUs of a {named}, by AWS's list of instance types, of \""
        'Running On-Demand Trn instances" (L-2C3B7624). The run does not read the quota: where it '
        "is too small, or the zone has no capacity, the run ends with exit code 6.",
        "instance profile": f"That of {owner}, with the policy AmazonSSMManagedInstanceCore. Where "
        f"Systems Manager does not reach the instance within {pace.START / 60:.0f} min, the run "
        "ends with exit code 7.",
    }


def permissions_row(job: Record, calls: Sequence[str]) -> str:
    beside = BESIDE * (job.kind == "template")
    actions = {*(call.replace(".", ":") for call in calls), *beside}
    return (
        f"{', '.join(sorted(actions))}. The policy in docs/hardware.md allows them, and the calls "
        "of runs that end early. A missing one ends the run with exit code 4."
    )


def likely_row(sets: Sequence[str], calls: Sequence[str]) -> str:
    commands = calls.count("ssm.SendCommand")
    local = sum(SETS[name].simulated_minutes for name in sets)
    least = commands * pace.COMMAND / 60 + local
    return (
        f"{math.ceil(least)} min and more: {commands} commands of about {pace.COMMAND:g} s, the "
        f"pause before the script asks again for an answer, and {local:g} min that the programs of "
        "these sets lasted in the simulator on two processors (remote/sets.py). The start of the "
        "instance and the compilation for the NeuronCore are added. Nobody has measured either, or "
        "any set on a NeuronCore."
    )

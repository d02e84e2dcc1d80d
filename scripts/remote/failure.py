"""Everything that can go wrong. Each kind has the exit code that docs/hardware.md lists."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError


class Failure(Exception):
    """Ends the run with `code`. A `transient` failure is worth another try a little later."""

    code = 15
    transient = False


class SetFailed(Failure):
    """A set failed, or did not end."""

    code = 1


class BadRequest(Failure):
    """An argument, the repository or the region is not what the run needs."""

    code = 2


class Declined(Failure):
    """The user answered no."""

    code = 3


class CredentialsRefused(Failure):
    """Credentials are missing or expired, or do not allow a call."""

    code = 4


class Throttled(Failure):
    """AWS throttles the calls, or reports errors of its own."""

    code = 5
    transient = True


class NoCapacity(Failure):
    """AWS has no capacity for the instance, or the quota of the account is too small."""

    code = 6


class NotOnline(Failure):
    """The instance does not start, or does not answer Systems Manager."""

    code = 7


class CommandFailed(Failure):
    """A command or the job on the instance failed, or somebody ended it."""

    code = 8


class CommandTimedOut(Failure):
    """A command did not reach the instance, or did not end in time."""

    code = 9
    transient = True


class InstanceGone(Failure):
    """The instance does not exist, or somebody else stopped or terminated it."""

    code = 10


class NetworkLost(Failure):
    """AWS cannot be reached."""

    code = 11
    transient = True


class CorruptPayload(Failure):
    """Every attempt at a transfer brought damaged data."""

    code = 12


class TimeLimit(Failure):
    """The job did not end in time."""

    code = 13


class StillRunning(Failure):
    """An instance may still run, and the script could not stop it."""

    code = 14


class AwsRefused(Failure):
    """AWS reported any other error. `reason` is the error code."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Interrupted(BaseException):
    """A signal arrived.

    This is no Exception: botocore turns every Exception during a request into one of its own.
    """

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        super().__init__(f"ended by {signal.Signals(number).name}")


SET_A_REGION = (
    "set AWS_REGION, AWS_DEFAULT_REGION or the region of the profile (aws configure) to a region "
    "such as us-west-2; the first of these three that is set counts"
)
SKEW = 60.0  # seconds between the clocks here and at AWS from which on a message mentions them

KINDS: dict[str, type[Failure]] = {
    **dict.fromkeys(
        [
            "ExpiredToken",
            "ExpiredTokenException",
            "RequestExpired",
            "AuthFailure",
            "UnrecognizedClientException",
            "InvalidClientTokenId",
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidSignatureException",
            "RequestTimeTooSkewed",
            "AccessDenied",
            "AccessDeniedException",
            "UnauthorizedOperation",
        ],
        CredentialsRefused,
    ),
    **dict.fromkeys(
        [
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestLimitExceeded",
            "RequestThrottled",
            "TooManyRequestsException",
            "SlowDown",
            "InternalServerError",
            "InternalError",
            "InternalFailure",
            "ServiceUnavailable",
            "Unavailable",
            "500",
            "502",
            "503",
            "504",
        ],
        Throttled,
    ),
    **dict.fromkeys(
        [
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "VcpuLimitExceeded",
            "InstanceLimitExceeded",
            "MaxSpotInstanceCountExceeded",
            "Unsupported",  # the instance type is not offered in the availability zone
        ],
        NoCapacity,
    ),
    **dict.fromkeys(
        [
            "InvalidLaunchTemplateId.Malformed",
            "InvalidLaunchTemplateId.NotFound",
            "InvalidLaunchTemplateName.MalformedException",
            "InvalidLaunchTemplateName.NotFoundException",
            "NoSuchBucket",
        ],
        BadRequest,
    ),
}


def skew(error: ClientError) -> str:
    """Returns a sentence on the clock here, where a wrong time may have spoilt the signature."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        there = parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError):
        return ""
    seconds = (datetime.now(timezone.utc) - there).total_seconds()
    if abs(seconds) < SKEW:
        return ""
    where = "ahead of" if seconds > 0 else "behind"
    return (
        f". The clock here is {abs(seconds) / 60:.0f} minutes {where} AWS's, and AWS accepts a "
        "signature for five minutes: set the clock, for example with NTP"
    )


def translate(error: ClientError | BotoCoreError) -> Failure:
    """Returns the failure that an error of botocore stands for."""
    if isinstance(error, ClientError):
        reason = error.response.get("Error", {}).get("Code", "unknown")
        kind = KINDS.get(reason)
        if kind is CredentialsRefused:
            return kind(f"{error}{skew(error)}")
        return kind(str(error)) if kind else AwsRefused(str(error), reason)
    if isinstance(
        error,
        (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.TokenRetrievalError,
            exceptions.SSOError,
        ),
    ):
        return CredentialsRefused(str(error))
    if isinstance(error, (exceptions.HTTPClientError, exceptions.IncompleteReadError)):
        return NetworkLost(str(error))
    if isinstance(error, exceptions.NoRegionError):
        return BadRequest(f"no region is chosen: {SET_A_REGION}")
    if isinstance(error, exceptions.InvalidRegionError):
        return BadRequest(f"{str(error).rstrip('.')}: {SET_A_REGION}")
    if isinstance(error, (exceptions.ProfileNotFound, exceptions.ParamValidationError)):
        return BadRequest(str(error))
    return AwsRefused(str(error), type(error).__name__)


@contextmanager
def translated() -> Iterator[None]:
    """Turns errors of botocore inside the block into failures."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise translate(error) from error

"""Everything that can go wrong, each kind with the exit code that docs/hardware.md lists."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError


class Failure(Exception):
    """The run ends with `code`. A `transient` failure is worth another try a little later."""

    code = 15
    transient = False


class SetFailed(Failure):
    """A set failed, or did not end."""

    code = 1


class BadRequest(Failure):
    """An argument, the repository or the region is not as it has to be."""

    code = 2


class Declined(Failure):
    """The user said no."""

    code = 3


class CredentialsRefused(Failure):
    """Credentials are missing, expired, or do not allow a call."""

    code = 4


class Throttled(Failure):
    """AWS throttles, or has errors of its own."""

    code = 5
    transient = True


class NoCapacity(Failure):
    """AWS has no such instance left, or the account may not have it."""

    code = 6


class NotOnline(Failure):
    """The instance does not come to run, or to answer Systems Manager."""

    code = 7


class CommandFailed(Failure):
    """A command, or the job on the instance, failed or was ended by somebody."""

    code = 8


class CommandTimedOut(Failure):
    """A command did not reach the instance, or did not end."""

    code = 9
    transient = True


class InstanceGone(Failure):
    """The instance does not exist, or somebody else ended it."""

    code = 10


class NetworkLost(Failure):
    """AWS cannot be reached."""

    code = 11
    transient = True


class CorruptPayload(Failure):
    """What was transferred is damaged, each time."""

    code = 12


class TimeLimit(Failure):
    """The job did not end in time."""

    code = 13


class StillRunning(Failure):
    """An instance may run on, and could not be stopped."""

    code = 14


class AwsRefused(Failure):
    """Any other error of AWS; `reason` is its error code."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Interrupted(BaseException):
    """A signal. No Exception: botocore turns those that rise during a request into its own."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        super().__init__(f"ended by {signal.Signals(number).name}")


SET_A_REGION = (
    "set AWS_REGION, AWS_DEFAULT_REGION or the region of the profile (aws configure) to a region "
    "such as us-west-2; the first of these three that is set counts"
)
SKEW = 60.0  # seconds between the clocks here and at AWS that are worth a word

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
    """How far the clock here is from AWS's, where that may be why a signature was refused."""
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
        f". The clock here is {abs(seconds) / 60:.0f} minutes {where} AWS's, whose signatures hold "
        "for five: set it, for example with NTP"
    )


def translate(error: ClientError | BotoCoreError) -> Failure:
    """The kind of failure that an error of botocore is."""
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
    """Errors of botocore leave the block as failures."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise translate(error) from error

"""Everything that can go wrong: one table of kinds, and the errors of AWS that belong to each."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from enum import Enum

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError

SET_A_REGION = (
    "set AWS_REGION, AWS_DEFAULT_REGION or the region of the profile (aws configure) to a region "
    "such as us-west-2; the first of these three that is set counts"
)
SKEW = 60.0  # seconds between the clocks here and at AWS from which on a message mentions them


class Kind(Enum):
    """The kinds of failures: exit code, whether to try again, error codes of AWS, exceptions.

    docs/hardware.md has the meaning of each exit code, and what to do. A transient failure is worth
    another try a little later. The exceptions are those of botocore.
    """

    SET_FAILED = (1,)
    BAD_REQUEST = (
        2,
        False,
        "InvalidLaunchTemplateId.Malformed InvalidLaunchTemplateId.NotFound "
        "InvalidLaunchTemplateName.MalformedException InvalidLaunchTemplateName.NotFoundException",
        (
            exceptions.InvalidRegionError,
            exceptions.NoRegionError,
            exceptions.ParamValidationError,
            exceptions.ProfileNotFound,
        ),
    )
    DECLINED = (3,)
    CREDENTIALS_REFUSED = (
        4,
        False,
        "AccessDenied AccessDeniedException AuthFailure ExpiredToken ExpiredTokenException "
        "InvalidAccessKeyId InvalidClientTokenId InvalidSignatureException RequestExpired "
        "RequestTimeTooSkewed SignatureDoesNotMatch UnauthorizedOperation "
        "UnrecognizedClientException",
        (
            exceptions.CredentialRetrievalError,
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.SSOError,
            exceptions.TokenRetrievalError,
        ),
    )
    THROTTLED = (
        5,
        True,
        "500 502 503 504 InternalError InternalFailure InternalServerError RequestLimitExceeded "
        "RequestThrottled ServiceUnavailable SlowDown Throttling ThrottledException "
        "ThrottlingException TooManyRequestsException Unavailable",
    )
    NO_CAPACITY = (
        6,
        False,
        # "Unsupported": the instance type is not offered in the availability zone.
        "InsufficientHostCapacity InsufficientInstanceCapacity InstanceLimitExceeded "
        "MaxSpotInstanceCountExceeded Unsupported VcpuLimitExceeded",
    )
    NOT_ONLINE = (7,)
    COMMAND_FAILED = (8,)
    COMMAND_TIMED_OUT = (9, True)
    INSTANCE_GONE = (10, False, "InvalidInstanceID.Malformed InvalidInstanceID.NotFound")
    NETWORK_LOST = (11, True, "", (exceptions.HTTPClientError, exceptions.IncompleteReadError))
    CORRUPT_PAYLOAD = (12,)
    TIME_LIMIT = (13,)
    STILL_RUNNING = (14,)
    AWS_REFUSED = (15,)  # for any other reason

    def __init__(
        self,
        code: int,
        transient: bool = False,
        reasons: str = "",
        raised: tuple[type[Exception], ...] = (),
    ) -> None:
        self.code = code
        self.transient = transient
        self.reasons = frozenset(reasons.split())
        self.raised = raised


class Failure(Exception):
    """Ends the run with the exit code of its kind. `reason` is the error code of AWS, if any."""

    def __init__(self, kind: Kind, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason
        self.code = kind.code


class Interrupted(BaseException):
    """A signal arrived.

    This is no Exception: botocore turns every Exception during a request into one of its own.
    """

    def __init__(self, number: int) -> None:
        self.code = 128 + number
        super().__init__(f"ended by {signal.Signals(number).name}")


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
    message, reason = str(error), type(error).__name__
    if isinstance(error, ClientError):
        reason = error.response.get("Error", {}).get("Code", "unknown")
    elif isinstance(error, exceptions.NoRegionError):
        message = f"no region is chosen: {SET_A_REGION}"
    elif isinstance(error, exceptions.InvalidRegionError):
        message = f"{message.rstrip('.')}: {SET_A_REGION}"
    for kind in Kind:
        if reason in kind.reasons or isinstance(error, kind.raised):
            break
    else:
        kind = Kind.AWS_REFUSED
    if kind is Kind.CREDENTIALS_REFUSED and isinstance(error, ClientError):
        message += skew(error)
    return Failure(kind, message, reason)


@contextmanager
def translated() -> Iterator[None]:
    """Turns errors of botocore inside the block into failures."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise translate(error) from error

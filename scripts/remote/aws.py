"""Calls to AWS: one place for retries, time-outs, waiters and the translation of errors."""

from __future__ import annotations

import os
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, WaiterError
from botocore.waiter import WaiterModel, create_waiter_with_client

from remote import pace
from remote.failure import translate, translated

# boto3 has no waiter for the SSM agent's first report to Systems Manager.
ONLINE = "InstanceOnline"
REPORTED = {
    "matcher": "pathAny",
    "argument": "InstanceInformationList[].PingStatus",
    "expected": "Online",
    "state": "success",
}
OURS = {
    ONLINE: {
        "operation": "DescribeInstanceInformation",
        "delay": pace.STATE,
        "maxAttempts": 1,
        "acceptors": [REPORTED],
    }
}


class Aws:
    """Clients of one region, with the credentials that boto3 finds.

    region: the region of an earlier job. Without it, AWS_REGION, AWS_DEFAULT_REGION and the region
    of the profile count in this order, as for AWS's command line.
    """

    def __init__(self, region: str | None = None, session: boto3.Session | None = None) -> None:
        # boto3 reads AWS_DEFAULT_REGION and the profile by itself, but does not know AWS_REGION.
        region = region or os.environ.get("AWS_REGION") or None
        with translated():
            self.session = session or boto3.Session(region_name=region)
        self.clients: dict[str, Any] = {}

    @property
    def region(self) -> str | None:
        """Returns the region of all calls."""
        return self.session.region_name

    def client(self, service: str) -> Any:
        """Returns the client of a service, which is made once."""
        if service not in self.clients:
            config = Config(
                retries={"mode": "standard", "total_max_attempts": pace.ATTEMPTS},
                connect_timeout=10,
                read_timeout=60,
            )
            self.clients[service] = self.session.client(service, config=config)
        return self.clients[service]

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Calls an operation; raises a Failure where no attempt succeeds."""
        with translated():
            return getattr(self.client(service), operation)(**parameters)

    def instances(self, **parameters: Any) -> list[dict[str, Any]]:
        """Returns instances as EC2 describes them, of all pages."""
        with translated():
            pages = self.client("ec2").get_paginator("describe_instances").paginate(**parameters)
            return list(pages.search("Reservations[].Instances[]"))

    def wait(
        self, service: str, waiter: str, every: float, seconds: float, **parameters: Any
    ) -> bool:
        """Returns whether a waiter of boto3, or of `OURS`, sees its state within some seconds.

        every: seconds between two looks.
        """
        with translated():
            client = self.client(service)
            if waiter in OURS:
                model = WaiterModel({"version": 2, "waiters": OURS})
                made = create_waiter_with_client(waiter, model, client)
            else:
                made = client.get_waiter(waiter)
            attempts = max(int(seconds / every), 1)
            try:
                made.wait(WaiterConfig={"Delay": every, "MaxAttempts": attempts}, **parameters)
            except WaiterError as error:
                if "Error" in error.last_response:
                    raise translate(ClientError(error.last_response, waiter)) from error
                return False
        return True

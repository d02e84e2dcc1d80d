"""The types of instances, and the most that a run on one can cost."""

from __future__ import annotations

from typing import NamedTuple

from remote import pace

ON_DEMAND = "on demand, us-east-1, aws.amazon.com/ec2/pricing/on-demand"
BLOCKS = "as a Capacity Block, aws.amazon.com/ec2/capacityblocks/pricing"


class Type(NamedTuple):
    """vCPUs, and US dollars an hour for Linux, without disk and traffic, copied from AWS's lists.

    `date` is the day or the month in which the list of prices, `source`, had this one. vCPUs are
    those of aws.amazon.com/ec2/instance-types.
    """

    vcpus: int
    hourly: float
    date: str
    source: str


# In November 2026 no price of trn2u and trn3 was found.
TYPES = {
    "trn2.3xlarge": Type(12, 2.235, "2026-05-21", BLOCKS),
    "trn2.48xlarge": Type(192, 35.7608, "2026-05-21", BLOCKS),
    "trn1.2xlarge": Type(8, 1.34375, "2026-11", ON_DEMAND),
    "trn1.32xlarge": Type(128, 21.50, "2026-11", ON_DEMAND),
    "trn1n.32xlarge": Type(128, 24.78, "2026-11", ON_DEMAND),
}


def longest(limit: float) -> float:
    """Returns the seconds for which an instance may run: the limit of the job, and its ends.

    The instance may need `pace.START` to start, and ends itself `pace.GRACE` after the limit.
    """
    return pace.START + limit + pace.GRACE


def rows(instance_type: str, limit: float) -> dict[str, str]:
    """Returns the price of an hour, and the upper bound of what the instance costs, in words."""
    found = TYPES.get(instance_type)
    if found is None:
        unknown = f"unknown: there is no price of {instance_type} here"
        return {"price": "unknown", "cost at most": unknown}
    hours = longest(limit) / 3600
    return {
        "price": f"${found.hourly:g} an hour {found.source}, {found.date}; other regions differ",
        "cost at most": f"${found.hourly * hours:.2f}: {hours:.2f} h at ${found.hourly:g}. The "
        f"time is the limit, up to {pace.START / 60:.0f} min for the start, and "
        f"{pace.GRACE / 60:.0f} min until the instance ends by itself",
    }

"""The most that a run can cost: the price of an hour times the longest time that it can last."""

from __future__ import annotations

from dataclasses import dataclass

from remote import pace

ON_DEMAND = "on demand, us-east-1, aws.amazon.com/ec2/pricing/on-demand"
BLOCKS = "as a Capacity Block, aws.amazon.com/ec2/capacityblocks/pricing"


@dataclass(frozen=True)
class Price:
    """A price in US dollars an hour for Linux, without disk and traffic, copied from AWS's lists.

    `date` is the day or the month in which the list had this price.
    """

    hourly: float
    date: str
    source: str

    def __str__(self) -> str:
        return f"${self.hourly:g} an hour {self.source}, {self.date}; other regions differ"


# In November 2026 no price of trn2u and trn3 was found.
PRICES = {
    "trn2.3xlarge": Price(2.235, "2026-05-21", BLOCKS),
    "trn2.48xlarge": Price(35.7608, "2026-05-21", BLOCKS),
    "trn1.2xlarge": Price(1.34375, "2026-11", ON_DEMAND),
    "trn1.32xlarge": Price(21.50, "2026-11", ON_DEMAND),
    "trn1n.32xlarge": Price(24.78, "2026-11", ON_DEMAND),
}


@dataclass(frozen=True)
class Estimate:
    """The upper bound of what the instance costs: nothing runs for longer than `seconds`."""

    instance_type: str
    seconds: float

    @classmethod
    def of(cls, instance_type: str, limit: float) -> Estimate:
        """Returns the estimate of a run with a time limit (seconds), to which its ends are added.

        The instance may need `pace.START` to start, and ends itself `pace.GRACE` after the limit.
        """
        return cls(instance_type, pace.START + limit + pace.GRACE)

    @property
    def price(self) -> Price | None:
        """Returns the price of the type; None for an unknown one."""
        return PRICES.get(self.instance_type)

    @property
    def dollars(self) -> float | None:
        """Returns the US dollars for all of that time; None for an unknown type."""
        return None if self.price is None else self.price.hourly * self.seconds / 3600

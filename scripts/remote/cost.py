"""What a run costs at most: the price of an hour times the time limit."""

from __future__ import annotations

from dataclasses import dataclass

ON_DEMAND = "on demand, us-east-1, aws.amazon.com/ec2/pricing/on-demand"
BLOCKS = "as a Capacity Block, aws.amazon.com/ec2/capacityblocks/pricing"


@dataclass(frozen=True)
class Price:
    """US dollars an hour for Linux, without disk and traffic: a copy of a list of AWS.

    `date` is the month or day at which the list had it.
    """

    hourly: float
    date: str
    source: str

    def __str__(self) -> str:
        return f"${self.hourly:g} an hour {self.source}, {self.date}; other regions differ"


# Of trn2u and trn3 no price was found, in November 2026.
PRICES = {
    "trn2.3xlarge": Price(2.235, "2026-05-21", BLOCKS),
    "trn2.48xlarge": Price(35.7608, "2026-05-21", BLOCKS),
    "trn1.2xlarge": Price(1.34375, "2026-11", ON_DEMAND),
    "trn1.32xlarge": Price(21.50, "2026-11", ON_DEMAND),
    "trn1n.32xlarge": Price(24.78, "2026-11", ON_DEMAND),
}


@dataclass(frozen=True)
class Estimate:
    """Upper bound of what the instance costs: nothing runs beyond `seconds`."""

    instance_type: str
    seconds: float

    @property
    def price(self) -> Price | None:
        """That of the type; None for an unknown one."""
        return PRICES.get(self.instance_type)

    @property
    def dollars(self) -> float | None:
        """US dollars for all of the time limit; None for an unknown type."""
        return None if self.price is None else self.price.hourly * self.seconds / 3600

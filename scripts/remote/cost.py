"""What a run costs at most: the price of an hour times the time limit."""

from __future__ import annotations

from dataclasses import dataclass

# US dollars an hour on demand, Linux, us-east-1, without disk and traffic, from
# https://aws.amazon.com/ec2/pricing/on-demand/ as copies of that list had them in 2026-11.
HOURLY = {
    "trn1.2xlarge": 1.34375,
    "trn1.32xlarge": 21.50,
    "trn1n.32xlarge": 24.78,
}
SOURCE = "on-demand list price in us-east-1, 2026-11; other regions differ"


@dataclass(frozen=True)
class Estimate:
    """Upper bound of what the instance costs: nothing runs beyond `seconds`."""

    instance_type: str
    seconds: float

    @property
    def hourly(self) -> float | None:
        """US dollars an hour; None for an unknown type."""
        return HOURLY.get(self.instance_type)

    @property
    def dollars(self) -> float | None:
        """US dollars for all of the time limit; None for an unknown type."""
        return None if self.hourly is None else self.hourly * self.seconds / 3600

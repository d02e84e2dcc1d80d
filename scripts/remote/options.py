"""The options of `hw_bench.py run`, checked before anything is sent or costs money."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from remote import sets
from remote.failure import BadRequest
from remote.instance import Target
from remote.record import Record
from remote.revision import Revision
from remote.states import WAITING

HOURS = 2.0
LONGEST_HOURS = 48.0


@dataclass(frozen=True)
class Options:
    """The options of a run. None or False stands for an option that was not given."""

    out: Path  # folder for the results and the record of the job
    instance: str | None
    tag: str | None
    template: str | None
    sets: str | None  # names, with commas between
    bucket: str | None
    hours: float | None  # time limit
    venv: str | None  # the folder of an environment on the instance, or a pattern
    keep: bool  # leave the instance running
    resume: bool  # go on with the job in `out`
    yes: bool  # ask nothing
    dry_run: bool

    def check(self) -> None:
        """Raises BadRequest for values that cannot work, or that --resume would ignore."""
        if self.hours is not None and not 0 < self.hours <= LONGEST_HOURS:
            raise BadRequest(
                f"argument '--hours' is {self.hours:g}; allowed are numbers above 0, up to "
                f"{LONGEST_HOURS:g}"
            )
        if self.bucket is not None and not re.fullmatch(
            r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", self.bucket
        ):
            raise BadRequest(
                f"argument '--bucket' is {self.bucket!r}; allowed are names of 3 to 63 characters "
                "out of a-z, 0-9 and -, without dots"
            )
        if self.venv is not None and not self.venv.startswith("/"):
            raise BadRequest(
                f"argument '--venv' is {self.venv!r}; allowed is an absolute path on the instance, "
                "such as /opt/aws_neuronx_venv_torch_neuronx_2_14_0"
            )
        for name, value in self._targets.items():
            if value == "":
                raise BadRequest(
                    f"argument '--{name}' is '', allowed are names that are not empty: name the "
                    f"{name}, or leave the option out"
                )
        of_the_record = self.instance, self.tag, self.template, self.sets, self.bucket, self.venv
        if self.resume and (self.dry_run or any(value is not None for value in of_the_record)):
            raise BadRequest(
                "--resume reads what the job was asked for from its record: leave out --instance, "
                "--tag, --template, --sets, --bucket, --venv and --dry-run"
            )

    @property
    def _targets(self) -> dict[str, str | None]:
        return {"instance": self.instance, "tag": self.tag, "template": self.template}

    @property
    def target(self) -> Target:
        """Returns the target that the user named; raises BadRequest unless there is exactly one."""
        found = [Target(kind, value) for kind, value in self._targets.items() if value is not None]
        if len(found) != 1:
            raise BadRequest(
                "the run needs exactly one of --instance, --tag and --template; --resume needs none"
            )
        return found[0]

    def new_record(self, revision: Revision) -> Record:
        """Returns the record of a new job, which is not saved yet."""
        chosen = sets.chosen("all" if self.sets is None else self.sets)
        return Record(
            folder=self.out,
            job=f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}",
            region=None,
            kind=self.target.kind,
            target=self.target.value,
            commit=revision.commit,
            bucket=self.bucket,
            venv=self.venv or "",
            seconds=HOURS * 3600,
            sets={name: {"state": WAITING} for name in chosen},
        )

"""The record of a job on this machine, by which --resume, status, fetch and stop find the job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nki_sim.base.whole_file import write_whole
from remote.failure import Failure, Kind

NAME = "job.json"


@dataclass
class Record:
    """A job and its instance. The record is saved after every change, before a call costs money."""

    folder: Path
    job: str
    region: str | None
    kind: str  # instance, tag or template
    target: str
    commit: str
    venv: str  # "" where the job makes an environment
    seconds: float  # time limit of one run
    instance: str | None = None
    instance_type: str = ""
    ours: bool = False  # the script started or launched the instance, and has to stop it
    armed_until: float | None = None  # Unix time at which the instance stops itself
    launches: int = 0
    sent: bool = False  # the job was started on the instance
    offset: int = 0  # bytes of the log that were shown already
    sets: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self) -> None:
        """Writes the record as a whole or not at all."""
        content = asdict(self)
        del content["folder"]
        write_whole(self.folder / NAME, json.dumps(content, indent=1))

    @property
    def token(self) -> str:
        """Returns a text that identifies one launch."""
        return f"{self.job}-{self.launches}"

    @property
    def missing(self) -> list[str]:
        """Returns the names of sets whose results are not here yet."""
        return [name for name, one in self.sets.items() if not one.get("fetched")]


def load(folder: Path) -> Record:
    """Returns the record in a folder; raises BAD_REQUEST where there is none, or a damaged one."""
    try:
        return Record(folder=folder, **json.loads((folder / NAME).read_text()))
    except OSError as error:
        raise Failure(
            Kind.BAD_REQUEST,
            f"argument '--out' is {str(folder)!r}, which holds no {NAME} that can be read "
            f"({error.strerror}): name the folder of a job",
        ) from error
    except (ValueError, TypeError) as error:
        complaint = f"{folder / NAME} is not a record of a job: {error}"
        raise Failure(Kind.BAD_REQUEST, complaint) from error

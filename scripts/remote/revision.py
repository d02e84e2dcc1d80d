"""The revision to run: an archive of a commit, and never of the files of the work tree."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from remote.failure import BadRequest

FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1, or SHA-256 in newer repositories


@dataclass(frozen=True)
class Revision:
    """A commit of the repository in a folder, by its full hash.

    Raises BadRequest for any other text before git sees it: somebody may have changed job.json, and
    git would read a text that begins with "-" as an option.
    """

    root: Path
    commit: str

    def __post_init__(self) -> None:
        if not FULL_HASH.fullmatch(self.commit):
            raise BadRequest(
                f"the commit is {self.commit!r}; allowed is a full hash of 40 or 64 digits from 0 "
                "to f. Somebody changed job.json: begin a new job"
            )
        try:
            git(self.root, "cat-file", "-e", f"{self.commit}^{{commit}}")
        except BadRequest as error:
            raise BadRequest(
                f"the commit {self.commit} is not in the repository {self.root}: fetch the commit, "
                "or begin a new job"
            ) from error

    def archive(self) -> bytes:
        """Returns all files of the commit, as a compressed tar archive."""
        return git(self.root, "archive", "--format=tar.gz", self.commit)

    def uncommitted(self) -> list[str]:
        """Returns the names of files whose content differs from the commit."""
        names = git(self.root, "diff", "--name-only", "-z", self.commit).decode(errors="replace")
        return names.split("\0")[:-1]


def git(root: Path, *arguments: str) -> bytes:
    """Returns what git prints; raises BadRequest with its message where git fails."""
    try:
        run = subprocess.run(["git", "-C", root, *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise BadRequest(
            "git packs the revision, and there is no git on this machine: install it"
        ) from error
    if run.returncode:
        raise BadRequest(f"git {arguments[0]} failed in {root}: {run.stderr.decode().strip()}")
    return run.stdout


def checked_out(root: Path) -> Revision:
    """Returns the commit that is checked out in a folder."""
    return Revision(root, git(root, "rev-parse", "--verify", "HEAD^{commit}").decode().strip())

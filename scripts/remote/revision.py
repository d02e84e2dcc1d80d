"""The revision to run: an archive of a commit, and never of the files of the work tree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from remote.failure import Failure, Kind

FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1, or SHA-256 in newer repositories


class Revision(NamedTuple):
    """A commit of the repository in a folder, by its full hash."""

    root: Path
    commit: str

    def archive(self) -> bytes:
        """Returns all files of the commit, as a compressed tar archive."""
        return git(self.root, "archive", "--format=tar.gz", self.commit)

    def uncommitted(self) -> list[str]:
        """Returns the names of files whose content differs from the commit."""
        names = git(self.root, "diff", "--name-only", "-z", self.commit).decode(errors="replace")
        return names.split("\0")[:-1]


def checked_out(root: Path) -> Revision:
    """Returns the commit that is checked out in a folder."""
    return Revision(root, git(root, "rev-parse", "--verify", "HEAD^{commit}").decode().strip())


def recorded(root: Path, commit: str) -> Revision:
    """Returns the commit that a record names; raises BAD_REQUEST for any other text.

    Somebody may have changed job.json, and git would read a text that begins with "-" as an option.
    """
    if not FULL_HASH.fullmatch(commit):
        raise Failure(
            Kind.BAD_REQUEST,
            f"the commit is {commit!r}; allowed is a full hash of 40 or 64 digits from 0 to f. "
            "Somebody changed job.json: begin a new job",
        )
    try:
        git(root, "cat-file", "-e", f"{commit}^{{commit}}")
    except Failure as error:
        raise Failure(
            Kind.BAD_REQUEST,
            f"the commit {commit} is not in the repository {root}: fetch the commit, or begin a "
            "new job",
        ) from error
    return Revision(root, commit)


def git(root: Path, *arguments: str) -> bytes:
    """Returns what git prints; raises BAD_REQUEST with its message where git fails."""
    try:
        run = subprocess.run(["git", "-C", root, *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        complaint = "git packs the revision, and there is no git on this machine: install it"
        raise Failure(Kind.BAD_REQUEST, complaint) from error
    if run.returncode:
        complaint = f"git {arguments[0]} failed in {root}: {run.stderr.decode().strip()}"
        raise Failure(Kind.BAD_REQUEST, complaint)
    return run.stdout

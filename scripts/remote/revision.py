"""The revision to run: an archive of a commit, never of the files of the work tree."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from remote.failure import BadRequest


@dataclass(frozen=True)
class Revision:
    """A commit of the repository in a folder."""

    root: Path
    commit: str

    def archive(self) -> bytes:
        """All files of the commit, as a compressed tar archive."""
        return git(self.root, "archive", "--format=tar.gz", self.commit)

    def uncommitted(self) -> list[str]:
        """Files of the commit that the work tree has changed."""
        names = git(self.root, "diff", "--name-only", "-z", self.commit).decode(errors="replace")
        return names.split("\0")[:-1]


def git(root: Path, *arguments: str) -> bytes:
    """What git prints; raises BadRequest with its complaint where it fails."""
    try:
        run = subprocess.run(["git", "-C", root, *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise BadRequest("git is needed to pack the revision, and there is none") from error
    if run.returncode:
        raise BadRequest(f"git {arguments[0]} failed in {root}: {run.stderr.decode().strip()}")
    return run.stdout


def checked_out(root: Path) -> Revision:
    """The commit that is checked out in a folder."""
    return Revision(root, git(root, "rev-parse", "--verify", "HEAD^{commit}").decode().strip())

"""The violations that the lint finds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """One place where a kernel breaks a rule.

    Attributes:
        file: Path of the source file.
        line: Line in that file, starting at 1.
        function: Name of the kernel or helper that contains the line.
        rule: Key into `RULES`, `DEPRECATED`, `WARNINGS` or `CONTESTED`.
        message: What is wrong, and what to write instead.
        severity: "error", "deprecated", "warning", or "contested" if the sources disagree.
    """

    file: str
    line: int
    function: str
    rule: str
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        tag = self.rule if self.severity == "error" else f"{self.rule}, {self.severity}"
        return f"{self.file}:{self.line}: {self.function}: {self.message} [{tag}]"

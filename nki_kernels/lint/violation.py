"""What the lint finds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """One place where a kernel leaves the accepted subset.

    Attributes:
        file: Path of the source file.
        line: Line in that file, starting at 1.
        function: Name of the kernel or helper that holds the line.
        rule: Key into `RULES`.
        message: What is wrong and what to write instead.
    """

    file: str
    line: int
    function: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.function}: {self.message} [{self.rule}]"

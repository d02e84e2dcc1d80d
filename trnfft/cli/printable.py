"""Text of files and arguments, as a terminal may show it."""


def printable(text: str) -> str:
    """The text with escapes for line breaks, control characters and bytes that are no text."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )

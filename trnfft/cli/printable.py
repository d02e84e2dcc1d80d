"""Makes texts of files and arguments safe for a terminal."""


def printable(text: str) -> str:
    """Returns text with escapes for line breaks, control characters and bytes that are no text."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )

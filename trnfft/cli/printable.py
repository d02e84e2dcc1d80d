"""Makes texts of files and arguments safe for a terminal."""


def printable(text: str) -> str:
    """Returns text with escapes for line breaks, control characters and bytes that are no text."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )

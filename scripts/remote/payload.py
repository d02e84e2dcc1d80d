"""Sealed payloads: bytes that carry their length and checksum, so that a cut payload is not parsed.

Systems Manager returns the first 24,000 characters of a command's output and does not say whether
there was more (API reference of GetCommandInvocation, StandardOutputContent). Everything from the
instance is therefore sealed, and parsed only after `unseal` has found it whole. A payload holds
compressed JSON, of replies and of files alike. This module also runs on the instance, so that it
needs nothing but the standard library.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from typing import Any

OUTPUT_LIMIT = 24_000  # characters
MARK = b"trnfft-payload"


class Damaged(Exception):
    """A payload was cut or changed on its way."""


def digest(body: bytes) -> str:
    """Returns the SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


def seal(answer: dict[str, Any]) -> bytes:
    """Returns an answer after a line with its length and checksum."""
    body = zlib.compress(json.dumps(answer).encode())
    return b"%s %d %s\n%s" % (MARK, len(body), digest(body).encode(), body)


def unseal(sealed: bytes) -> dict[str, Any]:
    """Returns the answer that was sealed; raises Damaged unless every byte is there."""
    line, newline, body = sealed.partition(b"\n")
    words = line.split(b" ")
    if not newline or len(words) != 3 or words[0] != MARK or not words[1].isdigit():
        raise Damaged(f"a payload begins with {sealed[:40]!r} where its seal should be")
    if len(body) != int(words[1]):
        raise Damaged(f"a payload has {len(body)} bytes, its seal says {int(words[1])}")
    if digest(body).encode() != words[2]:
        raise Damaged(f"the checksum of a payload of {len(body)} bytes is wrong")
    return json.loads(zlib.decompress(body))


def encode(answer: dict[str, Any]) -> str:
    """Returns an answer as text that a command prints."""
    text = base64.b64encode(seal(answer)).decode("ascii")
    if len(text) > OUTPUT_LIMIT:
        raise ValueError(f"a reply has {len(text)} characters; at most {OUTPUT_LIMIT} are allowed")
    return text


def decode(text: str) -> dict[str, Any]:
    """Returns the answer that was encoded; raises Damaged unless all of it is there."""
    try:
        return unseal(base64.b64decode(text.strip(), validate=True))
    except ValueError as error:
        raise Damaged(f"a payload cannot be decoded: {error}") from error


def pack(files: dict[str, bytes]) -> bytes:
    """Returns files as one sealed payload."""
    return seal({name: content.decode("latin-1") for name, content in files.items()})


def unpack(sealed: bytes, allowed: set[str]) -> dict[str, bytes]:
    """Returns the files of a payload; raises Damaged if it is not whole or has other names."""
    files = unseal(sealed)
    for name in files.keys() - allowed:
        raise Damaged(f"a payload holds {name!r}, which nobody asked for")
    return {name: content.encode("latin-1") for name, content in files.items()}

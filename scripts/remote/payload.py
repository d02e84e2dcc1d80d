"""Sealed payloads: bytes that carry their length and checksum, so that a cut payload is not parsed.

Systems Manager returns the first 24,000 characters of a command's output and does not say whether
there was more (API reference of GetCommandInvocation, StandardOutputContent). Everything from the
instance is therefore sealed, and parsed only after `unseal` has found it whole. This module also
runs on the instance, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import tarfile
import zlib
from typing import Any

OUTPUT_LIMIT = 24_000  # characters
BODY_LIMIT = 16_000  # bytes in one reply: 21,336 characters in base64, and the seal
MARK = b"trnfft-payload"


class Damaged(Exception):
    """A payload was cut or changed on its way."""


def digest(body: bytes) -> str:
    """Returns the SHA-256 of bytes in hexadecimal."""
    return hashlib.sha256(body).hexdigest()


def seal(body: bytes) -> bytes:
    """Returns a body after a line with its length and checksum."""
    return b"%s %d %s\n%s" % (MARK, len(body), digest(body).encode(), body)


def unseal(sealed: bytes) -> bytes:
    """Returns the body that was sealed; raises Damaged unless every byte is there."""
    line, newline, body = sealed.partition(b"\n")
    words = line.split(b" ")
    if not newline or len(words) != 3 or words[0] != MARK or not words[1].isdigit():
        raise Damaged(f"a payload begins with {sealed[:40]!r} where its seal should be")
    if len(body) != int(words[1]):
        raise Damaged(f"a payload has {len(body)} bytes, its seal says {int(words[1])}")
    if digest(body).encode() != words[2]:
        raise Damaged(f"the checksum of a payload of {len(body)} bytes is wrong")
    return body


def encode(answer: dict[str, Any]) -> str:
    """Returns an answer as text that a command prints. A long "log" loses its beginning."""
    while len(body := zlib.compress(json.dumps(answer).encode())) > BODY_LIMIT:
        log = answer.get("log", "")
        if len(log) < 2:
            raise ValueError(f"a reply has {len(body)} bytes; at most {BODY_LIMIT} are allowed")
        half = len(log) // 2
        answer = {**answer, "log": log[half:], "skipped": answer["skipped"] + half}
    return seal(base64.b64encode(body)).decode("ascii")


def decode(text: str) -> dict[str, Any]:
    """Returns the answer that was encoded; raises Damaged unless all of it is there."""
    try:
        return json.loads(zlib.decompress(base64.b64decode(unseal(text.strip().encode()))))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise Damaged(f"a payload cannot be decoded although its seal fits: {error}") from error


def pack(files: dict[str, bytes]) -> bytes:
    """Returns files as one compressed and sealed payload."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return seal(buffer.getvalue())


def unpack(sealed: bytes, allowed: set[str]) -> dict[str, bytes]:
    """Returns the files of a payload; raises Damaged if it is not whole or has other names."""
    files = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(unseal(sealed)), mode="r:gz") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if member.name not in allowed or content is None:
                    raise Damaged(f"a payload holds {member.name!r}, which nobody asked for")
                files[member.name] = content.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise Damaged(f"a payload is no archive: {error}") from error
    return files

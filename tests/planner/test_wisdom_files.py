"""Wisdom goes to a file and back; wrong plans are left out, with one warning."""

import json
import os
import re
import warnings
from pathlib import Path

import platformdirs
import pytest

import trnfft
from trnfft.planner import planner, wisdom, wisdom_files


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache folder, nothing remembered in memory, and a folder to write into."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    planner.forget()
    yield tmp_path / "cache"
    planner.forget()


def found():
    return [
        trnfft.plan(94, batch=4, target="trn1"),
        trnfft.plan(94, target="trn2"),
        trnfft.plan(93, inverse=True, target="trn1"),
    ]


def exported():
    """The header and the rows of an export of one plan."""
    trnfft.plan(94, target="trn1")
    trnfft.export_wisdom("a.jsonl")
    trnfft.forget_wisdom()
    return [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]


def write(*lines):
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    with open("a.jsonl", "wb") as file:
        file.write(b"\n".join(texts))


def test_there_and_back(folder, monkeypatch):
    plans = found()
    assert trnfft.export_wisdom("a.jsonl") == 3
    trnfft.forget_wisdom()
    assert list(folder.iterdir()) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trnfft.import_wisdom("a.jsonl") == 3
    monkeypatch.setattr(planner, "search", None)
    assert found() == plans
    planner.forget()  # later processes have them, too
    assert found() == plans


def test_an_import_counts_over_what_is_in_memory():
    header, row = exported()
    assert trnfft.plan(94, target="trn1").predicted_ns == row["candidates"][0]["predicted_ns"]
    row["candidates"][0]["predicted_ns"] += 1000.0
    write(header, row)
    trnfft.import_wisdom("a.jsonl")
    assert trnfft.plan(94, target="trn1").predicted_ns == row["candidates"][0]["predicted_ns"]


def test_forgotten_is_forgotten(monkeypatch):
    (plan, *_) = found()
    older = wisdom.user_file("trn1").with_suffix(".older.jsonl")
    older.write_bytes(wisdom.user_file("trn1").read_bytes())
    other = wisdom.user_file("trn1").with_name("plans-trn1-0123456789abcdef.jsonl")
    other.write_text("another version's")
    trnfft.forget_wisdom()
    assert list(other.parent.iterdir()) == [other]
    searched = []
    search = planner.search
    monkeypatch.setattr(planner, "search", lambda *a: searched.append(a) or search(*a))
    assert trnfft.plan(94, batch=4, target="trn1") == plan
    assert len(searched) == 1
    trnfft.forget_wisdom()
    trnfft.forget_wisdom()  # nothing there is no error
    assert trnfft.export_wisdom("a.jsonl") == 0


def test_an_export_has_what_other_processes_wrote_since(folder):
    trnfft.plan(94, target="trn1")
    line = wisdom.user_file("trn1").read_bytes().replace(b'"batch":1,', b'"batch":2,')
    with open(wisdom.user_file("trn1"), "ab") as file:
        file.write(line)
    assert trnfft.export_wisdom("a.jsonl") == 2


def test_an_export_that_fails_leaves_the_old_file(monkeypatch):
    found()
    trnfft.export_wisdom("a.jsonl")
    before = Path("a.jsonl").read_text()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        trnfft.export_wisdom("a.jsonl")
    assert Path("a.jsonl").read_text() == before
    assert sorted(os.listdir(".")) == ["a.jsonl", "cache"]


def test_what_cannot_be_used_is_said_in_one_warning():
    header, row = exported()
    choice = row["candidates"][0]
    wrong = [
        b"no JSON",
        {**row, "target": "trn9"},
        {**row, "inverse": True},
        {**row, "batch": 0},
        {**row, "max_error": 0.5},
        {**row, "candidates": [{**choice, "predicted_error": 1e-9}]},
        {**row, "candidates": [{**choice, "kind": {"what": "transform", "lengths": [95]}}]},
        {**row, "candidates": [{**choice, "algorithm": "rm"}]},
        {**row, "colour": "red"},
        b"[" * 100_000,
    ]
    write(header, *wrong[:5], row, *wrong[5:])
    with pytest.warns(UserWarning) as caught:
        assert trnfft.import_wisdom("a.jsonl") == 1
    assert len(caught) == 1
    sentence = str(caught[0].message)
    assert sentence.startswith("10 of 11 plans in a.jsonl cannot be used and are left out: line 2:")
    assert "line 3: " in sentence and "trn9" in sentence and sentence.endswith("and 7 more")
    assert caught[0].filename == __file__
    assert len(re.findall("line [0-9]+: ", sentence)) == 3
    assert "no transform looks up a plan of inverse FFT" in sentence
    trnfft.forget_wisdom()
    write(header, *wrong[1:4])
    with pytest.warns(UserWarning, match=r"3 of 3 plans .*; line 4: [^;]*`\$.batch`$"):
        assert trnfft.import_wisdom("a.jsonl") == 0
    for line in wrong:  # each by itself, and nothing of them is remembered
        trnfft.forget_wisdom()
        write(header, line)
        with pytest.warns(UserWarning, match="1 of 1 plans in a.jsonl"):
            assert trnfft.import_wisdom("a.jsonl") == 0
    assert trnfft.export_wisdom("b.jsonl") == 0


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda header: {**header, "format": 1}, "it has format 1, not 2"),
        (lambda header: {**header, "fingerprint": "0" * 16}, "from version 0000000000000000"),
        (lambda header: {**header, "more": 1}, ": its first line is not that of a file of wisdom$"),
        (lambda header: b"\xff\xfe", "its first line is not that of a file of wisdom"),
        (lambda header: b"[" * 100_000, "its first line is not that of a file of wisdom"),
    ],
)
def test_what_is_no_wisdom_of_this_version(change, sentence):
    header, row = exported()
    write(change(header), row)
    with pytest.raises(ValueError, match=f"argument 'path' is 'a.jsonl', allowed.*{sentence}"):
        trnfft.import_wisdom("a.jsonl")
    assert trnfft.export_wisdom("b.jsonl") == 0


def test_files_that_are_none(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError):
        trnfft.import_wisdom("missing.jsonl")
    with pytest.raises(OSError):
        trnfft.export_wisdom("missing/a.jsonl")
    os.mkdir("folder")
    with pytest.raises((OSError, ValueError)):
        trnfft.import_wisdom("folder")
    with pytest.raises(OSError):
        trnfft.export_wisdom("folder")
    write()
    with pytest.raises(ValueError, match=": it is empty$"):
        trnfft.import_wisdom("a.jsonl")
    os.mkfifo("pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        trnfft.import_wisdom("pipe")
    exported()
    os.symlink("a.jsonl", "link")
    assert trnfft.import_wisdom(tmp_path / "link") == 1
    monkeypatch.setattr(wisdom_files, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match="more than trnfft writes"):
        trnfft.import_wisdom("a.jsonl")


@pytest.mark.parametrize("function", [trnfft.export_wisdom, trnfft.import_wisdom])
@pytest.mark.parametrize(
    "path, error", [(None, TypeError), (3, TypeError), (b"a", TypeError), ("a\0", ValueError)]
)
def test_paths_that_are_none(function, path, error):
    with pytest.raises(error, match="argument 'path' is"):
        function(path)

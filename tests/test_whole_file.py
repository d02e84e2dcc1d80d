"""Files are written whole or not at all, whatever produces their content."""

import os
import secrets
from pathlib import Path

import pytest

from nki_sim.base.whole_file import write_whole


@pytest.mark.parametrize(
    "content", ["é\n", "é\n".encode(), lambda file: file.write("é\n".encode())]
)
def test_text_bytes_and_functions(tmp_path, content):
    path = tmp_path / "a.txt"
    for _ in range(2):  # the second time there is an old file
        write_whole(path, content)
        assert path.read_bytes() == "é\n".encode()
        assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_whole(path, write_half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "a.txt", "text")
    assert list(tmp_path.iterdir()) == []


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_the_file_can_be_read_by_whom_the_mask_allows(tmp_path):
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "whole", "text")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "loop", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """Even an attacker who guesses the temporary name cannot have another file overwritten."""
    names = []
    (tmp_path / "victim").write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda count: "guessed")
    write_whole(tmp_path / "probe", lambda file: names.append(Path(file.name)))
    names[0].symlink_to("victim")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", "text")
    assert (tmp_path / "victim").read_text() == "precious"
    assert names[0].is_symlink() and not (tmp_path / "file").exists()


def test_the_longest_name_that_a_folder_takes(tmp_path):
    write_whole(tmp_path / ("a" * 255), "text")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def test_the_content_is_on_the_disk_before_it_gets_the_name(tmp_path, monkeypatch):
    order = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (order.append("fsync"), sync(file)))
    monkeypatch.setattr(os, "replace", lambda *paths: (order.append("rename"), replace(*paths)))
    write_whole(tmp_path / "a", "text")
    assert order == ["fsync", "rename"]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path):
    """Root has the right to replace /dev/null by a file."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        write_whole(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]

"""Files are written whole or not at all, whatever their content comes from."""

import pytest

from nki_kernels.whole_file import write_whole


@pytest.mark.parametrize(
    "content", ["é\n", "é\n".encode(), lambda path: path.write_text("é\n", encoding="utf-8")]
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

    def write_half(temporary):
        temporary.write_text("half")
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

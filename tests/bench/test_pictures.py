"""Pictures of the pages: what they show, in which colours, and that each has both forms."""

import re
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from bench import pictures
from tests import sweeps

ROOT = Path(__file__).parents[2]
DIAGRAMS = ("slab", "pencil")


@pytest.mark.sweep  # 48 searches of plans where none is remembered
def test_the_first_page_says_what_its_picture_shows():
    readme = (ROOT / "README.md").read_text("utf-8")
    (alt,) = re.findall(r'front-light\.svg" alt="([^"]+)"', readme)
    assert unescape(alt) == pictures.front_in_words()


def test_every_picture_lies_in_its_folder_for_light_and_for_dark_pages():
    drawn = {path.name for path in pictures.FOLDER.glob("*.svg")}
    assert drawn == {f"{name}-{one}.svg" for name in pictures.PICTURES for one in pictures.INK}


@sweeps.some("name", DIAGRAMS, ["slab"])
def test_diagrams_are_drawn_in_both_schemes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "docs" / "pictures")
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr("sys.argv", ["pictures", name])
    pictures.main()
    for one, ink in pictures.INK.items():
        assert ink in (pictures.FOLDER / f"{name}-{one}.svg").read_text("utf-8")


def test_schemes_have_their_colours_and_leave_none_behind():
    from matplotlib import rcParams

    before = rcParams["text.color"]
    found = {}
    for name in pictures.INK:
        with pictures.scheme(name):
            found[name] = pictures.ink()
            assert Figure().get_facecolor() == (0, 0, 0, 0)
    assert found == pictures.INK and rcParams["text.color"] == before


def test_pages_name_both_forms_of_a_picture():
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text("utf-8")
        for scheme, other in (("light", "dark"), ("dark", "light")):
            for name, end in re.findall(
                rf"pictures/([\w-]+)-{scheme}\.(\w+)#gh-{scheme}-mode-only\)", text
            ):
                assert f"pictures/{name}-{other}.{end}#gh-{other}-mode-only)" in text, (page, name)
                assert (pictures.FOLDER / f"{name}-{scheme}.{end}").is_file()

"""The simulator names the distribution that holds it, whichever that is."""

from importlib.metadata import PathDistribution

from nki_sim.base import distribution


def installed(folder, monkeypatch):
    """Installs a distribution "house" with the plugin, and hides all others."""
    info = folder / "house-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: house\nVersion: 2.1\n")
    (info / "top_level.txt").write_text("kitchen\nnki_sim\n")
    (info / "entry_points.txt").write_text("[pytest11]\nnki_sim = nki_sim.pytest_plugin\n")
    points = PathDistribution(info).entry_points
    monkeypatch.setattr(distribution, "entry_points", lambda **wanted: points.select(**wanted))


def test_an_installed_distribution_is_asked_for(tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch)
    assert distribution.name_and_version() == "house 2.1"
    assert distribution.packages() == {"kitchen", "nki_sim"}
    assert distribution.from_extra("report") == (
        'which the extra "report" of house installs: in its checkout, pip install ".[report]"; '
        'with a wheel, pip install "FILE.whl[report]"'
    )


def test_a_checkout_on_the_path_is_none(monkeypatch):
    monkeypatch.setattr(distribution, "entry_points", lambda **wanted: ())
    assert distribution.name_and_version() == ""
    assert distribution.packages() == {"nki_sim"}
    assert 'the extra "report" of nki-sim installs' in distribution.from_extra("report")

"""Plans stay valid if they were found with the same sources, by any process."""

from pathlib import Path

import platformdirs
import pytest

import trnfft
from trnfft.planner import planner, wisdom

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "changed",
    [
        "nki_kernels/fft/stockham.py",
        "nki_sim/report/timeline.py",
        "nki_sim/hardware.py",
        "trnfft/planner/cost.py",
        "trnfft/planner/algorithms/stockham.py",
    ],
)
def test_the_fingerprint_is_of_kernels_simulator_and_planner(changed, monkeypatch):
    read, path = Path.read_bytes, ROOT / changed
    assert path.is_file()
    before = wisdom.fingerprint()
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self == path))
    wisdom.fingerprint.cache_clear()
    after = wisdom.fingerprint()
    wisdom.fingerprint.cache_clear()
    assert len(after) == len(before) and after != before


def test_plans_of_another_process_are_kept(tmp_path, monkeypatch):
    folder = tmp_path / "another"
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(folder))
    planner.forget()
    trnfft.plan(93)
    row_of_another = wisdom.user_file("trn1").read_bytes()
    folder = tmp_path / "own"
    planner.forget()
    found = {94: trnfft.plan(94)}  # from here on this process knows what is in the file
    with open(wisdom.user_file("trn1"), "ab") as file:  # as another process does
        file.write(row_of_another)
    found[95] = trnfft.plan(95)
    planner.forget()
    monkeypatch.setattr(planner, "search", None)
    assert trnfft.plan(93).n == 93
    assert {n: trnfft.plan(n) for n in found} == found
    planner.forget()

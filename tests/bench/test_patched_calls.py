"""Calls are timed as they are, in a block and after start."""

from bench import patched_calls


def test_every_way_is_timed(capsys, monkeypatch):
    monkeypatch.setattr(patched_calls, "ROUNDS", 1)
    monkeypatch.setattr(patched_calls, "CALLS", 1)
    patched_calls.main()
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(lines) == 3 + len(patched_calls.REAL) + len(patched_calls.COMPLEX)
    assert all(float(number) > 0 for number in lines[2].split()[-3:])

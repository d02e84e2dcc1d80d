"""The command ``python -m nki_sim.lint file.py ...``, which equals ``nki-sim lint``."""

from nki_sim.commands.lint import run

if __name__ == "__main__":
    raise SystemExit(run())

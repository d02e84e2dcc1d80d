"""The command ``python -m nki_kernels.lint file.py ...``, which equals ``nki-sim lint``."""

from nki_kernels.simulator.commands.lint import run

if __name__ == "__main__":
    raise SystemExit(run())

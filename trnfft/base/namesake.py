"""The other project of this name, the distribution ``trnfft`` of the public package index.

That distribution's import name is trnfft, too. pip writes the files of both projects into one
folder, so that a mixture of both would run. This project's distribution is ``trnfft-nki``.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata

from trnfft.base.distributions import LIBRARY

NAMESAKE = "trnfft"


def refuse_namesake() -> None:
    """Refuses to run where the distribution of the other project is installed.

    Raises:
        ImportError: a distribution ``trnfft`` is installed, and its description is not that of
            ``trnfft-nki``, which early versions of this project under the old name share.
    """
    try:
        other = metadata(NAMESAKE)
    except PackageNotFoundError:
        return
    try:
        own = metadata(LIBRARY)["Summary"]
    except PackageNotFoundError:
        own = None
    if other["Summary"] != own:
        raise ImportError(
            f"the installed distribution {NAMESAKE!r}, version {other['Version']}, is another "
            f"project whose import name is trnfft, too, and pip writes the files of both into one "
            f"folder. Run: pip uninstall {NAMESAKE} {LIBRARY}. Then install {LIBRARY} again, from "
            f"a checkout or a wheel"
        )

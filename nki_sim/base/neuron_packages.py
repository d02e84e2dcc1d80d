"""The installation of AWS's Neuron packages, in one place for all messages and programs.

The public index has placeholders under the names of these packages. With `--extra-index-url` pip
installs the highest version of all indexes, so that anyone could have a package installed by
uploading a higher version to the public index (dependency confusion). Therefore these packages are
installed from AWS's index only, and their dependencies afterwards from the public index.
hw_bench.py sends this file to its instances, so it uses only the standard library of Python 3.9.
"""

from __future__ import annotations

import shlex

INDEX = "https://pip.repos.neuron.amazonaws.com"
# --isolated, because pip would also use an index of PIP_EXTRA_INDEX_URL or of the user's pip.conf.
FROM_AWS_ALONE = ("--isolated", "--no-deps", "--index-url", INDEX)


def how_to_install(*packages: str) -> str:
    """Returns a shell command that installs packages of AWS, also in place of placeholders.

    The first part installs the packages, and the second part adds their dependencies.

    Args:
        packages: names of packages, with versions where they matter: "torch-neuronx==2.9.*".
    """
    names = shlex.join(packages)
    options = " ".join(FROM_AWS_ALONE)
    return f"pip install --force-reinstall {options} {names} && pip install {names}"

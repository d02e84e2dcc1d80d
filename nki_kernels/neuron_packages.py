"""How AWS's Neuron packages are installed: one place for all that says it or does it.

Under the names of these packages the public index has placeholders. pip's `--extra-index-url` takes
the highest version of all indexes: whoever put a higher one on the public index would have it
installed (dependency confusion). So these packages come from AWS's index alone, and afterwards
what they need comes from the public index. hw_bench.py sends this file to its instances: it needs
nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import shlex

INDEX = "https://pip.repos.neuron.amazonaws.com"
# --isolated: an index of PIP_EXTRA_INDEX_URL or of the user's pip.conf would be asked, too.
FROM_AWS_ALONE = ("--isolated", "--no-deps", "--index-url", INDEX)


def how_to_install(*packages: str) -> str:
    """A line of shell that installs packages of AWS, also in the place of placeholders.

    The second command finds the packages of the first and adds what these need.

    Args:
        packages: names, with versions where these matter: "torch-neuronx==2.9.*".
    """
    names = shlex.join(packages)
    options = " ".join(FROM_AWS_ALONE)
    return f"pip install --force-reinstall {options} {names} && pip install {names}"

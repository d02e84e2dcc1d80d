"""Puts nki_simulator.pth into wheels, beside the packages; pyproject.toml holds everything else.

Python reads it when it starts: with NKI_SIMULATOR=1 the simulator answers `import nki` where no
real nki is installed. An editable install goes without.
"""

import os

from setuptools import setup
from setuptools.command.build_py import build_py

SWITCH = "nki_simulator.pth"


class BuildWithSwitch(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            self.copy_file(os.path.join("nki_sim", SWITCH), self.build_lib)

    def get_outputs(self, include_bytecode=True):
        found = super().get_outputs(include_bytecode)
        return [*found, os.path.join(self.build_lib, SWITCH)]


setup(cmdclass={"build_py": BuildWithSwitch})

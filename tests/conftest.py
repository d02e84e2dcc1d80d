"""Settings and fixtures for every test."""

import os

# The simulator multiplies many small matrices, and tests run in parallel: one thread each.
# Set before anything imports NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import platformdirs  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def own_cache_folder(tmp_path_factory):
    """Plans that tests find are remembered in a folder of their own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platformdirs, "user_cache_dir", lambda *names: str(folder / "-".join(names)))
        yield

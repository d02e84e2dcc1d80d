"""Settings and fixtures for every test."""

import os

# The simulator multiplies many small matrices, and tests run in parallel: one thread each.
# Set before anything imports NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import platformdirs  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def own_cache_folder(tmp_path_factory):
    """Plans that tests find are remembered in a folder of their own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platformdirs, "user_cache_dir", lambda *names: str(folder / "-".join(names)))
        yield


class NoComplexDtype(TorchDispatchMode):
    """Fails where an operation of torch returns a tensor of a complex dtype."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            assert not (isinstance(leaf, torch.Tensor) and leaf.is_complex()), operation
        return result


@pytest.fixture
def no_complex_dtype():
    """A context that stands for a device without complex dtypes, with the "matmul" backend."""
    return NoComplexDtype()

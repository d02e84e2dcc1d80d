"""The kernel for the Hugging Face Hub: its files, and runs with and without an installed trnfft."""

import ast
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hugging_face_kernel
from tests import programs
from tests.tolerances import near, sums, transforms

ROOT = Path(__file__).parents[2]
# Loaded as `kernels` does it: a package that no folder on the path holds, named by its metadata.
LOAD = """
import importlib.util, json, pkgutil, sys
from pathlib import Path
import torch

folder = Path({folder!r})
name = json.loads((folder / "metadata.json").read_text())["id"]
spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
kernel = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernel)
"""
BESIDE = "import trnfft\ntorch.manual_seed(0)\n"
WITHOUT = """
import sys
ours = ("trnfft", "nki_kernels", "nki_sim")
sys.modules |= {one: None for one in [*ours, *sys.modules] if one.partition(".")[0] in ours}
"""
# Outputs and gradients of the layer, which the test compares.
COMPUTE = """
config = importlib.import_module(f"{name}.trnfft.base.config")
layer = kernel.layers.FourierMixing()
x = torch.randn(2, 6, 8, requires_grad=True)
weights = torch.randn(2, 6, 8)


def output_and_gradient(layer, x=x):
    y = layer(x)[0]
    return torch.stack([y, *torch.autograd.grad((y * weights).sum(), x)])


found = {"exact": output_and_gradient(lambda x: (torch.fft.fftn(x, dim=(1, 2)).real,), x.double())}
for backend in ("torch", "matmul", "nki-sim"):
    with config.backend(backend):
        found[backend] = output_and_gradient(layer)
half = x.detach().bfloat16()
assert layer(half)[0].dtype == torch.bfloat16
halves = {"half": layer(half)[0].float(), "rounded": layer(half.float())[0].detach()}
"""
MORE = """
compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
found["compiled"] = output_and_gradient(compiled)
assert torch.autograd.gradcheck(layer, x.double())
assert torch.autograd.gradgradcheck(layer, x.double())
"""
SAVE = "torch.save((found, halves), 'found.pt')\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A kernel, as the script leaves it."""
    out = tmp_path_factory.mktemp("kernel") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["", str(out), "--repository", "org/trnfft-fnet"])
        hugging_face_kernel.main()
    return out / "build" / "torch-neuron"


@pytest.fixture
def run(folder, tmp_path):
    """Runs Python code in a folder of its own, which may know of trnfft only as installed."""

    def run(code):
        pytest.importorskip("torch")
        variables = {**os.environ, "PYTHONPATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-c", code.replace("{folder!r}", repr(str(folder)))]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def sources(folder):
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}


def check_results(folder):
    """Compares what a program has saved in a folder."""
    import torch

    found, halves = torch.load(folder / "found.pt")
    exact = found.pop("exact")
    for backend, outputs in found.items():
        near(outputs, exact, transforms((6, 8)), message=backend)
    near(halves["half"], halves["rounded"], sums(1, "bfloat16"))


def test_it_computes_without_an_installed_trnfft(folder, tmp_path):
    """The default smoke test, in one process: numbers, shipped plans, and sentences on errors."""
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    code = """
wisdom = importlib.import_module(f"{name}.trnfft.planner.wisdom")
assert min(len(wisdom.shipped(chip)) for chip in ("trn1", "trn2", "trn3")) > 100
for x in (torch.ones(2, 3), torch.ones(2, 3, 4, dtype=torch.cfloat), [1.0]):
    try:
        kernel.layers.FourierMixing()(x)
    except (IndexError, TypeError) as error:
        print(error)
"""
    code = (WITHOUT + LOAD + COMPUTE + SAVE + code).replace("{folder!r}", repr(str(folder)))
    program.write_text(code, "utf-8")
    lines = programs.printed_by([program], tmp_path, tmp_path / "cache").splitlines()
    assert len(lines) == 3
    assert all(line.startswith("argument 'hidden_states' ") for line in lines)
    check_results(tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("first", "more"),
    [(LOAD + BESIDE, MORE), (BESIDE.replace("torch.", "import torch; torch.") + LOAD, "")],
    ids=["before", "after"],
)
def test_beside_trnfft_each_has_its_own_operators_and_settings(run, tmp_path, first, more):
    code = """
x = torch.randn(2, 6, 8)
with trnfft.backend("matmul"):
    assert config.get_backend() == "auto"
    ours = trnfft.nn.FNetMixer()(x)
    theirs = kernel.layers.FourierMixing()(x)[0]
halves |= {"half": theirs, "rounded": ours}
ops = getattr(torch.ops, name).c2c, torch.ops.trnfft.c2c
for op in ops:
    real, imag = op(x, torch.zeros_like(x), False, 1.0, "matmul", "fast", 2)
    torch.testing.assert_close(real, ours)
z = trnfft.as_complex_tensor(torch.randn(3, dtype=torch.cfloat)).requires_grad_()
(z * z).real.sum().backward()
assert type(z.grad) is trnfft.ComplexTensor
"""
    run(first + COMPUTE + more + code + SAVE)
    check_results(tmp_path)


@pytest.mark.sweep
def test_every_module_is_importable_without_trnfft(run):
    code = """
found = [one.name for one in pkgutil.walk_packages(kernel.__path__, f"{name}.")]
for module in found:
    importlib.import_module(module)
print(len(found))
ours = ("trnfft", "nki_kernels", "nki_sim")
assert not [one for one in sys.modules if one.partition(".")[0] in ours
            and sys.modules[one]]
"""
    assert int(run(WITHOUT + LOAD + code)) > 200


def test_metadata(folder):
    metadata = json.loads((folder / "metadata.json").read_text("utf-8"))
    assert re.fullmatch(r"_trnfft_fnet_neuron_[0-9a-f]{7}", metadata["id"])
    assert (metadata["name"], metadata["version"]) == ("trnfft-fnet", 1)
    assert metadata["backend"] == {"type": "neuron"}
    assert metadata["python-depends"] == ["nki"]
    files = {
        path.relative_to(folder).as_posix(): base64.b64encode(
            hashlib.sha256(path.read_bytes()).digest()
        ).decode()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "metadata.json"
    }
    assert metadata["digest"] == {"algorithm": "sha256", "files": files}
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.sweep
def test_a_kernel_is_the_same_each_time(folder, tmp_path):
    hugging_face_kernel.build(tmp_path / "again", 1, "org/trnfft-fnet")
    again = tmp_path / "again" / "build" / "torch-neuron" / "metadata.json"
    assert again.read_bytes() == (folder / "metadata.json").read_bytes()


@pytest.mark.sweep
def test_what_it_needs_is_said(folder):
    """Packages from elsewhere: what trnfft depends on, and what only its optional parts import."""
    found = set()
    for path in sources(folder).values():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.partition(".")[0])
    needed = found - sys.stdlib_module_names - {"torch", "jinja2", "perfetto"}
    stated = ast.literal_eval(
        re.search(r"REQUIREMENTS = (\(.*?\))", (folder / "__init__.py").read_text(), re.S)[1]
    )
    assert {re.match(r"\w+", one)[0] for one in stated} == needed
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert all(f'"{one}"' in project for one in stated)


def test_a_package_that_is_missing_is_named(folder, tmp_path):
    code = f"""
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "msgspec" else find(name)
exec(open({str(folder / "__init__.py")!r}).read())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "not installed: pip install 'msgspec>=0.22,<0.23'" in done.stderr


@pytest.mark.sweep
@pytest.mark.parametrize("first", ["", LOAD], ids=["alone", "loaded before"])
def test_a_folder_of_its_name_holds_it_too(run, first):
    code = """
import importlib.util, sys
before = set(sys.modules)
spec = importlib.util.spec_from_file_location("other", {folder!r} + "/trnfft_fnet/__init__.py")
other = importlib.util.module_from_spec(spec)
spec.loader.exec_module(other)
name = other.layers.FourierMixing.__module__.partition(".")[0]
assert other.layers is sys.modules[name].layers
"""
    run(first + code + ("assert name not in before" if not first else "assert name in before"))


@pytest.mark.parametrize(
    ("version", "repository", "named"),
    [
        (0, "org/name", "version"),
        (1, "name", "repository"),
        (1, "org/Name", "repository"),
        (1, "org/nki-kernels", "repository"),
    ],
)
def test_wrong_arguments_are_refused(version, repository, named, tmp_path):
    with pytest.raises(ValueError, match=f"argument '{named}' is .* allowed is"):
        hugging_face_kernel.build(tmp_path / "out", version, repository)
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ValueError, match="argument 'out' is .* remove it, or name another"):
        hugging_face_kernel.build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    ("source", "new"),
    [
        ("from trnfft.base import config", "from ...trnfft.base import config"),
        ("import nki_kernels", "from ... import nki_kernels"),
        (
            "def f():\n    from nki_sim import (\n    a)",
            "def f():\n    from ...nki_sim import (\n    a)",
        ),
        ("from .plan import Plan", "from .plan import Plan"),
        ('"""\nimport trnfft\n"""', '"""\nimport trnfft\n"""'),
    ],
)
def test_imports_become_relative(source, new):
    assert hugging_face_kernel.relative(source, "trnfft/planner/cost.py") == new


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import trnfft.base.config", "no relative form"),
        ("import os, trnfft", "no relative form"),
        ("import trnfft as t", "no relative form"),
        ("from trnfft import fft", "imports no module"),
        ('module = import_module(f"trnfft.{name}")', "lazy.py has .* derive the name"),
    ],
)
def test_imports_that_cannot_are_refused(source, reason):
    with pytest.raises(ValueError, match=reason):
        hugging_face_kernel.relative(source, "trnfft/lazy.py")

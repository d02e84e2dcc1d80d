"""FNet of transformers with the kernel that scripts/hugging_face_kernel.py builds, on the device.

A cache folder, as a download leaves it, represents the Hub in offline mode. From there on, the code
of `kernels` and of transformers runs unchanged.
"""

import sys
from importlib.machinery import ModuleSpec

import pytest
import torch

import hugging_face_kernel
from nki_sim.base.installed_nki import SIMULATOR_VARIABLE
from nki_sim.import_nki.modules import simulated_nki

from .comparison import all_near, near_host
from .fnet import configuration

kernels = pytest.importorskip("kernels", reason="kernels is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from transformers import monkey_patching  # noqa: E402

REPOSITORY = "org/trnfft-fnet"
COMMIT = "0123456789" * 4
REPLACED = "FNetBasicFourierTransform"


@pytest.fixture(autouse=True, scope="module")
def nki():
    """A package nki that passes for the real one: the kernels' copies take it, not their own.

    So they run on the stand-in, which takes kernels of this simulator.
    """
    modules = simulated_nki()
    real = modules["nki"]
    del real.__simulator__
    real.__spec__ = ModuleSpec("nki", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(SIMULATOR_VARIABLE)
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        yield


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """The kernel in a cache of the Hub, as `snapshot_download` leaves it; the path of the cache."""
    cache = tmp_path_factory.mktemp("hub")
    folder = cache / f"kernels--{REPOSITORY.replace('/', '--')}"
    hugging_face_kernel.build(folder / "snapshots" / COMMIT, 1, REPOSITORY)
    (folder / "refs").mkdir()
    (folder / "refs" / "v1").write_text(COMMIT)
    return cache


@pytest.fixture
def hub(snapshot, monkeypatch):
    """The Hub, offline, with the kernel in its cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(snapshot))


@pytest.fixture(scope="module")
def fnet(tmp_path_factory):
    """A folder with a small FNet."""
    torch.manual_seed(0)
    config = configuration()
    folder = tmp_path_factory.mktemp("fnet")
    transformers.FNetModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def replacements():
    """None before a test and none after it: transformers keeps those of a kernel in the process."""
    yield
    monkey_patching.clear_patch_mapping()


LAYER = f"{REPOSITORY}:FourierMixing"


def loaded(folder, layer):
    """The FNet of a folder on the device, with a layer of the Hub."""
    return transformers.AutoModel.from_pretrained(
        folder, kernel_config=transformers.KernelConfig({REPLACED: layer}), device_map="neuron"
    )


def unchanged(folder):
    """The FNet of a folder on the host, with transformers' own layers."""
    model = transformers.AutoModel.from_pretrained(folder)
    assert type(model.encoder.layer[0].fourier.self).__name__ == REPLACED
    return model


@pytest.fixture
def words():
    return torch.randint(50, (2, 16), generator=torch.Generator().manual_seed(0))


def test_from_pretrained(hub, fnet, words, launches):
    expected = unchanged(fnet)(words).last_hidden_state
    model = loaded(fnet, (LAYER, {"version": 1, "trust_remote_code": True}))
    assert launches == []
    actual = model(words.to("neuron")).last_hidden_state
    assert actual.device.type == "neuron"
    near_host(actual, expected)
    assert launches == [("four_step_axes", 2)] * 2, "one a layer"


def test_prices_are_of_its_own_copy_of_the_simulator(hub, fnet, words):
    """The kernels are those of the package nki; dry runs take them as this tree would: twice."""
    loaded(fnet, (LAYER, {"version": 1, "trust_remote_code": True}))(words.to("neuron"))
    own = {name for name in sys.modules if name.startswith("_trnfft_fnet_neuron_")}
    package = min(own)
    assert f"{package}.nki_kernels_in_simulator.nd.axes" in own
    assert sys.modules[f"{package}.nki_kernels.base.isa"].REAL_NKI


def test_other_models_compute_on(hub, fnet, words, launches):
    """Made later, where transformers puts the layer's layout in as well, but not its forward."""
    expected = unchanged(fnet)(words).last_hidden_state
    loaded(fnet, (LAYER, {"version": 1, "trust_remote_code": True}))
    other = transformers.AutoModel.from_pretrained(fnet)
    assert type(other.encoder.layer[0].fourier.self).__name__ == "FourierMixingLayout"
    near_host(other(words).last_hidden_state, expected)
    assert launches == []


def test_from_a_folder(snapshot, fnet, words, launches, monkeypatch):
    """What the variable LOCAL_KERNELS names is taken as it is, and nothing is asked of the Hub."""
    folder = snapshot / "kernels--org--trnfft-fnet" / "snapshots" / COMMIT
    monkeypatch.setenv("LOCAL_KERNELS", f"{REPOSITORY}={folder}")
    model = loaded(fnet, (LAYER, {"revision": "main", "trust_remote_code": True}))
    model(words.to("neuron"))
    assert len(launches) == 2


def test_training(hub, fnet, words, launches):
    def step(model, words):
        model.train()
        states = model(words.to(model.device)).last_hidden_state
        scale = torch.linspace(-1, 1, states.shape[-1]).roll(3).to(model.device)
        (states * scale).sum().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    expected = step(unchanged(fnet), words)
    model = loaded(fnet, (LAYER, {"version": 1, "trust_remote_code": True}))
    actual = step(model, words)
    assert len(launches) == 4
    all_near(actual, expected)


@pytest.mark.parametrize("backend", ["neuron", "aot_eager"])
def test_compiled(hub, backend, launches):
    torch._dynamo.reset()
    layer = kernels.get_kernel(REPOSITORY, version=1, trust_remote_code=True).layers.FourierMixing()
    x = torch.randn(2, 16, 24, generator=torch.Generator().manual_seed(0))
    run = torch.compile(layer, backend=backend, fullgraph=True)
    given = x.to("neuron").requires_grad_()
    (actual,) = run(given)
    (gradient,) = torch.autograd.grad((actual * given.detach()).sum(), given)
    exact = torch.fft.fft2(x).real
    all_near([actual, gradient], [exact, exact])
    assert len(launches) == 2


def test_the_digest_is_that_of_kernels(snapshot):
    (folder,) = snapshot.glob("*/snapshots/*/build/torch-neuron")
    metadata = kernels._rust.Metadata.read_from_file(folder / "metadata.json")
    found = kernels._rust.Digest.hash_variant(metadata.digest.algorithm, folder)
    metadata.digest.validate(found)
    assert len(found.files) > 200


def test_layers_are_as_kernels_wants_them(snapshot):
    (folder,) = snapshot.glob("*/snapshots/*")
    layers = kernels.get_local_kernel(folder).layers
    own = {name for name in vars(layers.FourierMixing) if not name.startswith("_")}
    assert own == {"forward", "has_backward", "can_torch_compile"}

"""Arguments that the planner's functions refuse: the message names the argument and its value."""

import numpy as np
import pytest
import torch

import trnfft
from nki_sim import hardware
from trnfft.planner import planner
from trnfft.planner.kinds import BlockCirculant, Convolution

KNOWN = "dft_gemm, stockham, .*, axes_to_real, many .* with _bf16 and .*, and 'seed' alone"
NAMES = r"'algorithms' is (3|array|.*tensor).*, allowed are n"
OF_SEED = "no kernel transforms N = {}.* split_bluestein takes 32769 <= N <= 4194304"
MOST = f"is {2**62 + 1}, allowed is 1 to {2**62}: a tensor has no more"
META = torch.empty((), dtype=torch.int64, device="meta")

# Arguments, the error, and what its message says after the word "argument" or anywhere.
OF_PLAN = [
    (dict(n=0), ValueError, "'n' is 0"),
    (dict(n=True), TypeError, "'n'.*bool"),
    (dict(n=[8]), TypeError, "'n'.*list"),
    (dict(n=2.0), TypeError, "'n'.*float"),
    (dict(n=torch.ones(3)), TypeError, "argument 'n' "),
    (dict(n=-(10**5000)), ValueError, "argument 'n' "),
    (dict(n=64, max_error=1e-12), NotImplementedError, "N = 64.*1e-12.*double"),
    (dict(), TypeError, "'n' must be an int"),
    (dict(n=3, shape=(3,)), TypeError, r"'n' and 'shape' are 3 and \(3,\), allowed is one of"),
    (dict(shape=()), ValueError, "allowed are one or more sizes"),
    (dict(shape=5), TypeError, "'shape' must be a tuple of ints, not int"),
    (dict(shape=torch.tensor(4)), TypeError, "argument 'shape' "),
    (dict(shape=(3, 0)), ValueError, "'shape' is 0"),
    (dict(shape=(2**70, 3)), NotImplementedError, "an int of 71 bits x 3 has more than 536870912"),
    (dict(shape=(2**15, 2**14 + 1)), NotImplementedError, "more than 536870912 points"),
    (dict(shape=(2**22 + 15, 2)), NotImplementedError, "axis 0 of.*launches:.*N = 4194319"),
    (dict(shape=(3, 4), padded_from=(0, 4)), ValueError, "'padded_from' is 0"),
    (dict(shape=(3, 4), padded_from=(3,)), ValueError, "'padded_from' is"),
    (
        dict(shape=(3, 4), padded_from=(4, 4)),
        ValueError,
        r"'padded_from' is \(4, 4\), allowed are 2 sizes up to \(3, 4\)",
    ),
    (dict(n=8, padded_from=np.array(4)), TypeError, "argument 'padded_from' "),
    (dict(n=8, batch=0), ValueError, "'batch' is 0"),
    (dict(n=8, batch=META), TypeError, "argument 'batch' "),
    (dict(n=8, batch=2**500), NotImplementedError, "'batch' is an int of 501 bits"),
    (dict(n=8, real=torch.tensor(True)), TypeError, "argument 'real' "),
    (dict(n=8, inverse="no"), TypeError, "argument 'inverse' "),
    (dict(n=8, precision="best"), ValueError, "argument 'precision' .*best.*fast.*kahan"),
    (dict(n=8, precision=np.array(["fast", "kahan"])), ValueError, "argument 'precision' "),
    (dict(n=8, precision="x" * 10**6), ValueError, "argument 'precision' "),
    (dict(n=8, target=[]), ValueError, "argument 'target' "),
    (dict(n=8, target="inf9"), ValueError, "argument 'target' is 'inf9', allowed are trn1, trn2"),
    (dict(n=64, algorithms=3), TypeError, NAMES),
    (dict(n=64, algorithms=np.array("seed")), TypeError, NAMES),
    (dict(n=64, algorithms=torch.tensor(1)), TypeError, NAMES),
    (dict(n=8, algorithms=[torch.ones(2)]), ValueError, "argument 'algorithms' "),
    (dict(n=256, algorithms=["rader"]), ValueError, "'rader'.*dft_gemm.*stockham.*seed"),
    *(
        (dict(n=64, algorithms=names), ValueError, KNOWN)
        for names in (["seed", "dft_gemm"], ["seed", "seed"], "fft")
    ),
    (
        dict(n=64, algorithms="axes"),
        NotImplementedError,
        "N = 64 on trn1, LNC=1: axes takes shapes; use",
    ),
    (dict(n=100, algorithms="butterfly"), NotImplementedError, "N = 100.*powers of two"),
    *(
        (dict(shape=(8, 48), algorithms=name), NotImplementedError, message)
        for name, message in (
            ("seed", "'seed' is a choice for one length, not for shapes"),
            ("stockham", r"shape \(8, 48\) .*: stockham takes one length"),
            ("real_axes", r"shape \(8, 48\) .*: real_axes is r2c, this is c2c"),
            ("dft_gemm_axes", r"shape \(8, 48\) .*: dft_gemm_axes takes up to 256 points"),
        )
    ),
    (dict(shape=(8, 48), algorithms=["axes", "seed"]), ValueError, KNOWN),
    (
        dict(shape=(8, 48), algorithms="stockham_axes_bf16"),
        NotImplementedError,
        "the most accurate is stockham_axes_bf16 384 = 8 x 48 with",
    ),
    *(
        (dict(n=n, algorithms="seed"), NotImplementedError, OF_SEED.format(n))
        for n in (2**22 + 1, 5000011)
    ),
    (dict(n=8, dtype=torch.ones(10**4)), TypeError, "argument 'dtype' "),
    (
        dict(n=64, dtype=torch.complex64),
        TypeError,
        "complex64, allowed are float16, bfloat16, float32, fl",
    ),
    (dict(n=8, max_error=0), ValueError, "'max_error' is 0"),
    (dict(n=8, max_error=1j), TypeError, "argument 'max_error' "),
    (dict(n=8, max_error=10**5000), ValueError, "argument 'max_error' "),
    (dict(n=64, cores=2), ValueError, "'cores'.* is 2, .*trn1 has degree 1 only"),
    (dict(n=64, target="trn3", cores=3), ValueError, "'cores'.* is 3, allowed is 1 to 2 on trn3"),
    (dict(n=64, cores=0), ValueError, "'cores' is 0, allowed is 1 or more"),
    (dict(n=64, cores="2"), TypeError, "'cores' must be an int, not str"),
    (dict(n=64, cores=True), TypeError, "'cores' must be an int, not bool"),
    (dict(n=64, precision="double", cores=2), ValueError, "'cores'.* is 2"),
]
OF_OTHERS = {
    planner.plan_for: [
        (dict(kind=Convolution((256,)), cores=2), ValueError, "trn1 has degree 1 only"),
        (dict(kind=BlockCirculant(2, 2, 64), cores=2), ValueError, "trn1 has degree 1 only"),
    ],
    trnfft.next_fast_len: [
        *((dict(target=n), ValueError, "'target' is .*, allowed is 1 or more") for n in (0, -5)),
        *((dict(target=n), TypeError, "'target' must be an int") for n in (2.0, "8", None, True)),
        (dict(target=2**62 + 1), ValueError, f"argument 'target' {MOST}"),
        (dict(target=8, real=torch.tensor([True, False])), TypeError, "argument 'real' is"),
    ],
    trnfft.fft_workspace_bytes: [
        *(
            (dict(n_or_shape=size), ValueError, "argument 'n_or_shape' is 0")
            for size in (0, (4, 0))
        ),
        *(
            (dict(n_or_shape=size), TypeError, "argument 'n_or_shape'")
            for size in (None, True, 2.0, (2.0, 3))
        ),
        (dict(n_or_shape=np.array([4, -4])), ValueError, "argument 'n_or_shape'"),
        (dict(n_or_shape=2**30), NotImplementedError, "N = 1073741824"),
        (dict(n_or_shape=(2**22 + 15, 2)), NotImplementedError, "axis 0 of length 4194319"),
        (dict(n_or_shape=8, batch=0), ValueError, "'batch' is 0"),
        (dict(n_or_shape=64, batch=10**5000), NotImplementedError, "'batch' is an int of 16610 bi"),
        # The largest batch that is a number of bytes, of the length whose search is the shortest.
        (
            dict(n_or_shape=2, batch=2**62),
            NotImplementedError,
            f"argument 'batch' is {2**62}, .* on trn1, LNC=1: .*2 Gi",
        ),
        (dict(n_or_shape=64, convolution=torch.tensor(True)), TypeError, "'convolution' is"),
    ],
}
REFUSED = [
    (function, *case)
    for function, cases in {trnfft.plan: OF_PLAN, **OF_OTHERS}.items()
    for case in cases
]


@pytest.mark.parametrize("function, arguments, error, message", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_is_named(function, arguments, error, message):
    with hardware.select(hardware.TRN1), pytest.raises(error, match=message) as caught:
        function(**arguments)
    assert len(str(caught.value)) < 1000 and "\n" not in str(caught.value)

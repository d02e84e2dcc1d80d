"""Other people's tests, run with trnfft in the place of torch's transforms.

`./scripts/test.sh --others` makes `.venv-others`, fetches the packages of `suites.toml` at pinned
commits into its folder `suites`, and runs the tests of each in a process of its own. The plugin of
pytest in `plugin.py` starts `trnfft.patch_torch` before a package is imported, and compares every
outcome with `known_differences.toml`. A suite fails where a test fails that is not listed, where a
listed test passes, and where an entry names no test. The packages are used as they lie in their
repositories; nothing of them is built or installed.

There are three modes:

* `patched`, the default: trnfft computes by its backend "matmul", whose complex results are
  ComplexTensors. The complex tensors of torch's other functions are torch's own.
* `split`: the same, and the CPU stands for a device without complex storage, where torch's other
  functions return ComplexTensors, too. The suites of SciPy and NumPy have no such mode.
* `unpatched`: without trnfft. The mode shows which failures are the package's own.

SciPy's tests run under `scipy.fft.set_global_backend(trnfft.scipy_backend)`. numpy.fft has no
backends: its tests run with the functions of scipy.fft, under this backend, in the place of those
functions of numpy.fft that have the same names.
"""

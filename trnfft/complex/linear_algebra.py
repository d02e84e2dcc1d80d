"""Linear algebra on the host: decompositions, systems of equations and functions of matrices.

LAPACK's algorithms take a column at a time, and some iterate until the numbers converge. On a
NeuronCore each column would be many launches. torch's formulas for the derivatives call the
operators of this table again.
"""

from trnfft.complex.dispatch import TABLE, aten, implements
from trnfft.complex.on_the_host import below_autograd
from trnfft.complex.shape import conj

# PyTorch-XLA copies a tensor where torch conjugates it lazily.
implements(aten._conj_copy.default)(conj)

_ON_THE_HOST = """
    linalg_lu linalg_lu_factor_ex linalg_lu_solve lu_unpack _linalg_solve_ex linalg_inv_ex
    _linalg_det _linalg_slogdet linalg_solve_triangular triangular_solve
    linalg_cholesky_ex cholesky cholesky_solve cholesky_inverse
    linalg_ldl_factor_ex linalg_ldl_solve
    linalg_qr geqrf ormqr linalg_householder_product linalg_lstsq
    linalg_eig _linalg_eigvals _linalg_eigh _linalg_svd linalg_pinv linalg_matrix_exp
"""


def _name_of(operator: str) -> str:
    name = operator.removeprefix("_").removesuffix("_ex")
    return "torch." + name.replace("linalg_", "linalg.", 1)


for _operator in _ON_THE_HOST.split():
    if hasattr(aten, _operator):  # torch 2.14 no longer has cholesky
        _function = getattr(aten, _operator)
        _overload = getattr(_function, "atol_rtol_tensor", _function.default)
        TABLE[_overload] = below_autograd(_overload, _name_of(_operator))

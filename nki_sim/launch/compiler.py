"""The module nki.compiler of NKI 0.7: settings of the compiler for one kernel.

Sources: nki/api/generated/nki.jit and _modules/nki/compiler of the Neuron SDK 2.33.1. The simulator
accepts and checks the fields, but none of them changes a value or a modelled time. In every launch
it checks barriers between two cores, which is what the field barrier_check asks for.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from nki_sim.base import releases
from nki_sim.base.removed_api import NAMES

_OLD = NAMES["nki.compiler"]
_RING = "NKI_PREFETCH_RING_SIZE"


class AddressRotation(Enum):
    """Whether the backend rotates addresses of the kernel's tensors."""

    AUTO = "auto"
    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """Settings of the compiler for one kernel; None stands for the compiler's default.

    Raises:
        TypeError: a field is not a bool, or address_rotation is not an AddressRotation.
        ValueError: prefetch_auto is set although NKI_PREFETCH_RING_SIZE is set by hand.
    """

    address_rotation: AddressRotation = AddressRotation.AUTO
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.address_rotation, AddressRotation):
            raise TypeError(
                f"argument 'address_rotation' of CompileConfig is {self.address_rotation!r}, "
                f"allowed is AddressRotation.AUTO, ENABLE or DISABLE"
            )
        _check_bools(self)
        if self.prefetch_auto and os.environ.get(_RING):
            raise ValueError(
                f"argument 'prefetch_auto' of CompileConfig is True, which is not allowed where "
                f"{_RING} is set: unset {_RING}"
            )


@dataclass(frozen=True, kw_only=True)
class SpecializationConfig:
    """Settings of how a kernel is specialised.

    Attributes:
        allow_nested_config_override: if True, a kernel under nki.jit that this kernel calls may
            have another CompileConfig, with a warning instead of an error.
    """

    allow_nested_config_override: bool = False

    def __post_init__(self) -> None:
        _check_bools(self)


@dataclass(frozen=True)
class Config:
    """The configurations that were passed to nki.jit for a kernel."""

    compile: CompileConfig | None = None
    specialization: SpecializationConfig | None = None

    @classmethod
    def of(
        cls,
        compile_config: CompileConfig | None,
        specialization_config: SpecializationConfig | None,
    ) -> Config:
        """Checks both and returns them; raises TypeError for another type, or in NKI 0.6."""
        given = (
            ("compile_config", compile_config, CompileConfig),
            ("specialization_config", specialization_config, SpecializationConfig),
        )
        for name, value, kind in given:
            if value is not None and not releases.is_traced():
                raise TypeError(
                    f"nki.jit has no argument {name!r} in NKI 0.6, only since NKI 0.7: omit it, or "
                    f"choose NKI 0.7"
                )
            if not isinstance(value, (kind, type(None))):
                raise TypeError(
                    f"argument {name!r} of nki.jit is {value!r}, allowed is nki.compiler."
                    f"{kind.__name__}(...)"
                )
        return cls(compile_config, specialization_config)

    def check_nested(self, other: Config, called: str) -> None:
        """Raises ValueError for a called kernel with another config, or warns where allowed."""
        if other.compile is None or other.compile == (self.compile or CompileConfig()):
            return
        text = (
            f"{called}, which another kernel calls, has {other.compile}, but the calling kernel "
            f"has {self.compile}; any difference counts as a disagreement here, because no "
            f"document defines it"
        )
        if self.specialization is None or not self.specialization.allow_nested_config_override:
            raise ValueError(
                f"{text}: pass the same to both, or pass the calling kernel "
                f"SpecializationConfig(allow_nested_config_override=True)"
            )
        warnings.warn(f"{text}. The configuration of the calling kernel holds", stacklevel=3)


NO_CONFIG = Config()


def _check_bools(config: CompileConfig | SpecializationConfig) -> None:
    for field in fields(config):
        value = getattr(config, field.name)
        may_be_none = field.default is None and value is None
        if field.name != "address_rotation" and not (isinstance(value, bool) or may_be_none):
            name = type(config).__name__
            raise TypeError(f"argument {field.name!r} of {name} is {value!r}, allowed is a bool")


def public_name(name: str) -> Any:
    """Implements ``__getattr__`` of the module nki.compiler, which NKI 0.6 does not have."""
    if name.startswith("__"):
        raise AttributeError(f"module 'nki.compiler' has no attribute {name!r}")
    public = {one.__name__: one for one in (AddressRotation, CompileConfig, SpecializationConfig)}
    if not releases.is_traced():
        since = "it came with NKI 0.7" if name in public else f"nki.compiler was {_OLD}"
        raise AttributeError(f"NKI {releases.current()} has no nki.compiler.{name}: {since}")
    if name not in public:
        raise AttributeError(f"nki.compiler has no {name}: its names are {', '.join(public)}")
    return public[name]

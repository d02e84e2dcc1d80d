"""Eager mode on the device: values and gradients, the kernels that run, what crosses the bus."""

import pytest

from .comparison import Training, assert_close
from .subjects import SUBJECTS

subjects = pytest.mark.parametrize("name", SUBJECTS)


@subjects
def test_values_and_gradients(name, launches):
    subject = SUBJECTS[name]
    actual = Training(subject, "neuron").step()
    assert {x.device.type for x in actual} == {"neuron"}
    assert_close(actual, Training(subject, "cpu").step())
    assert bool(launches) == bool(subject.kernels)
    if subject.kernels:
        assert {kernel for kernel, _ in launches} & set(subject.kernels)
        assert {degree for _, degree in launches} == {2}


@subjects
def test_nothing_crosses_the_bus(name, counted):
    training = Training(SUBJECTS[name], "neuron")
    training.step()  # which uploads the tables
    with counted() as counts:
        training.step()
    assert (counts.to_host, counts.to_device) == (0, 0)

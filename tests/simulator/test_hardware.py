"""The chip and the degree of LNC of launches, and the settings that select them."""

import re

import pytest

from nki_sim import hardware
from nki_sim.hardware import LNC_VARIABLE, TARGET_VARIABLE, TRN1, TRN2, TRN3


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Nothing names a chip or a degree; returns a function that makes this an instance."""
    for variable in (TARGET_VARIABLE, LNC_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(hardware, "INSTANCE_TYPE", tmp_path / "absent")

    def on(instance):
        file = tmp_path / instance
        file.write_text(f"{instance}\n")
        monkeypatch.setattr(hardware, "INSTANCE_TYPE", file)

    return on


def test_without_a_word_it_is_trn1():
    assert hardware.current_and_why() == (TRN1, "the default, as nothing names a chip")
    assert hardware.degree_and_why() == (1, "the default of trn1")


@pytest.mark.parametrize(
    ("instance", "chip"),
    [
        ("trn1.2xlarge", TRN1),
        ("trn1n.32xlarge", TRN1),
        ("inf2.xlarge", TRN1),
        ("trn2.3xlarge", TRN2),
        ("trn2u.48xlarge", TRN2),
        ("trn3gen2.48xlarge", TRN3),
    ],
)
def test_the_instance_names_the_chip(nowhere, instance, chip):
    nowhere(instance)
    assert hardware.current_and_why() == (chip, "the instance's type")
    assert hardware.degree() == chip.programs_per_launch


@pytest.mark.parametrize("instance", ["m7i.large", "inf1.xlarge", "Standard PC (i440FX)", ""])
def test_other_computers_name_none(nowhere, instance, tmp_path, monkeypatch):
    file = tmp_path / "type"
    file.write_text(instance)
    monkeypatch.setattr(hardware, "INSTANCE_TYPE", file)
    assert hardware.current() == TRN1


def test_a_folder_in_its_place_names_none(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "INSTANCE_TYPE", tmp_path)
    assert hardware.current() == TRN1


def test_the_variable_goes_before_the_instance_and_select_before_both(nowhere, monkeypatch):
    nowhere("trn1.2xlarge")
    monkeypatch.setenv(TARGET_VARIABLE, "gen3")
    assert hardware.current_and_why() == (TRN2, TARGET_VARIABLE)
    with hardware.select(TRN3):
        assert hardware.current_and_why() == (TRN3, "selected")
    monkeypatch.setenv(TARGET_VARIABLE, "")
    assert hardware.current_and_why() == (TRN1, "the instance's type")


def test_a_name_is_no_chip():
    message = re.escape("'trn2', but it must be a NeuronCore, such as hardware.chip('trn1')")
    with pytest.raises(TypeError, match=message), hardware.select("trn2"):
        pass


def test_a_chip_that_is_not_known(monkeypatch):
    monkeypatch.setenv(TARGET_VARIABLE, "trn9")
    with pytest.raises(ValueError, match="'trn9' is not known: use one of trn1, "):
        hardware.current()


def test_degrees_by_default():
    assert [hardware.degree(chip) for chip in (TRN1, TRN2, TRN3)] == [1, 2, 2]
    with hardware.select(TRN3):
        assert hardware.degree_and_why() == (2, "the default of trn3")


@pytest.mark.parametrize("degree", ["1", "2"])
def test_the_variable_of_the_degree(nowhere, monkeypatch, degree):
    nowhere("trn2.48xlarge")
    monkeypatch.setenv(LNC_VARIABLE, degree)
    assert hardware.degree_and_why() == (int(degree), LNC_VARIABLE)
    assert hardware.degree(TRN2) == int(degree)


@pytest.mark.parametrize("degree", ["1", "2"])
def test_another_chip_takes_the_variable_where_it_has_the_degree(nowhere, monkeypatch, degree):
    nowhere("trn2.48xlarge")
    monkeypatch.setenv(LNC_VARIABLE, degree)
    assert hardware.degree(TRN3) == int(degree)
    assert hardware.degree(TRN1) == 1
    with hardware.select(TRN1):
        assert hardware.degree() == 1
    if degree == "2":
        assert hardware.degree_and_why(TRN1)[1] == "the default of trn1, which has no degree 2"


def test_a_degree_for_no_chip_that_is_named(monkeypatch):
    """Without a word on the chip 2 is no degree of trn1's, but trn1 by name is another chip."""
    monkeypatch.setenv(LNC_VARIABLE, "2")
    with pytest.raises(ValueError, match=f"'2', allowed on trn1 is 1; .*{TARGET_VARIABLE}"):
        hardware.degree()
    assert hardware.degree(TRN1) == 1 and hardware.degree(TRN2) == 2


@pytest.mark.parametrize("ask", [hardware.degree, lambda: hardware.degree(TRN1)])
def test_a_degree_that_the_chip_one_is_on_lacks(monkeypatch, ask):
    monkeypatch.setenv(TARGET_VARIABLE, "trn1")
    monkeypatch.setenv(LNC_VARIABLE, "2")
    with pytest.raises(ValueError, match=f"{LNC_VARIABLE} is '2', allowed on trn1 is 1; unset it"):
        ask()


@pytest.mark.parametrize("given", ["0", "3", "two", "02", " 2", "-1"])
def test_what_is_no_degree(nowhere, monkeypatch, given):
    nowhere("trn2.3xlarge")
    monkeypatch.setenv(LNC_VARIABLE, given)
    for chip in (None, TRN2, TRN3):
        with pytest.raises(ValueError, match=f"{LNC_VARIABLE} is '{given}', .* is 1 or 2; unset"):
            hardware.degree(chip)
    with pytest.raises(ValueError, match="allowed on trn1 is 1; unset it"):
        hardware.degree(TRN1)


def test_the_floor_of_two_cores_is_that_of_their_hbm():
    assert TRN1.dma_floor_ns(1000) == pytest.approx(16000 / 272)
    assert TRN2.dma_floor_ns(1000, 8) == pytest.approx(8000 / 368)
    assert TRN2.dma_floor_ns(1000, 8, cores=2) == pytest.approx(8000 / 566)

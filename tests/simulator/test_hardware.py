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


def settings_say():
    """The chip and the degree, each with its reason, or the error."""
    try:
        chip, why = hardware.current_and_why()
        degree, reason = hardware.degree_and_why()
    except ValueError as error:
        return str(error)
    assert hardware.current() == chip and hardware.degree() == degree
    return f"{chip.name}: {why}; {degree}: {reason}"


NOTHING = "trn1: the default, as nothing names a chip"


@pytest.mark.parametrize(
    ("instance", "target", "lnc", "said"),
    [
        ("", "", "", f"{NOTHING}; 1: the default of trn1"),
        ("trn1.2xlarge", "", "", "trn1: the instance's type; 1: the default of trn1"),
        ("trn1n.32xlarge", "", "", "trn1: the instance's type; 1: the default of trn1"),
        ("inf2.xlarge", "", "", "trn1: the instance's type; 1: the default of trn1"),
        ("trn2.3xlarge", "", "", "trn2: the instance's type; 2: the default of trn2"),
        ("trn2u.48xlarge", "", "", "trn2: the instance's type; 2: the default of trn2"),
        ("trn3gen2.48xlarge", "", "", "trn3: the instance's type; 2: the default of trn3"),
        ("m7i.large", "", "", f"{NOTHING}; 1: the default of trn1"),
        ("inf1.xlarge", "", "", f"{NOTHING}; 1: the default of trn1"),
        ("Standard PC (i440FX)", "", "", f"{NOTHING}; 1: the default of trn1"),
        (" ", "", "", f"{NOTHING}; 1: the default of trn1"),
        ("trn1.2xlarge", "gen3", "", f"trn2: {TARGET_VARIABLE}; 2: the default of trn2"),
        ("trn2.48xlarge", "", "1", f"trn2: the instance's type; 1: {LNC_VARIABLE}"),
        ("trn2.48xlarge", "", "2", f"trn2: the instance's type; 2: {LNC_VARIABLE}"),
        ("", "trn9", "", ".*'trn9' is not known: use one of trn1, .*"),
        # Without a word on the chip 2 is no degree of trn1's, but trn1 by name is another chip.
        ("", "", "2", f".*'2', allowed on trn1 is 1; .*{TARGET_VARIABLE}.*"),
        ("", "trn1", "2", f"{LNC_VARIABLE} is '2', allowed on trn1 is 1; unset it.*"),
        *(
            ("trn2.3xlarge", "", given, f"{LNC_VARIABLE} is '{given}', .* is 1 or 2; unset.*")
            for given in ("0", "3", "two", "02", " 2", "-1")
        ),
    ],
)
def test_settings(nowhere, monkeypatch, instance, target, lnc, said):
    if instance:
        nowhere(instance)
    monkeypatch.setenv(TARGET_VARIABLE, target)
    if lnc:
        monkeypatch.setenv(LNC_VARIABLE, lnc)
    assert re.fullmatch(said, settings_say())


def test_a_folder_in_its_place_names_none(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "INSTANCE_TYPE", tmp_path)
    assert hardware.current() == TRN1


def test_what_is_selected_goes_before_all(monkeypatch):
    monkeypatch.setenv(TARGET_VARIABLE, "gen3")
    with hardware.select(TRN3):
        assert settings_say() == "trn3: selected; 2: the default of trn3"
    assert [hardware.degree(chip) for chip in (TRN1, TRN2, TRN3)] == [1, 2, 2]


def test_a_name_is_no_chip():
    message = re.escape("'trn2', but it must be a NeuronCore, such as hardware.chip('trn1')")
    with pytest.raises(TypeError, match=message), hardware.select("trn2"):
        pass


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


def test_degrees_of_other_chips(nowhere, monkeypatch):
    monkeypatch.setenv(LNC_VARIABLE, "2")
    assert hardware.degree(TRN1) == 1 and hardware.degree(TRN2) == 2
    monkeypatch.setenv(TARGET_VARIABLE, "trn1")
    with pytest.raises(ValueError, match=f"{LNC_VARIABLE} is '2', allowed on trn1 is 1; unset it"):
        hardware.degree(TRN1)
    monkeypatch.setenv(TARGET_VARIABLE, "trn2")
    for degree in ("0", "3", "two", "02", " 2", "-1"):
        monkeypatch.setenv(LNC_VARIABLE, degree)
        for chip in (TRN2, TRN3):
            with pytest.raises(ValueError, match=f"{LNC_VARIABLE} is '{degree}', .* is 1 or 2; "):
                hardware.degree(chip)
        with pytest.raises(ValueError, match="allowed on trn1 is 1; unset it"):
            hardware.degree(TRN1)


def test_the_floor_of_two_cores_is_that_of_their_hbm():
    assert TRN1.dma_floor_ns(1000) == pytest.approx(16000 / 272)
    assert TRN2.dma_floor_ns(1000, 8) == pytest.approx(8000 / 368)
    assert TRN2.dma_floor_ns(1000, 8, cores=2) == pytest.approx(8000 / 566)

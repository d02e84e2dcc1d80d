"""Sealed payloads: whole payloads can be opened, and damaged ones never."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.payload import OUTPUT_LIMIT, Damaged, decode, encode, pack, seal, unpack, unseal
from remote.worker import CHUNK, LOG_LIMIT, choose_venv

ANSWERS = st.dictionaries(st.text(), st.text() | st.integers())


@given(ANSWERS, st.data())
def test_any_cut_and_any_changed_byte_is_found(answer, data):
    sealed = seal(answer)
    assert unseal(sealed) == answer
    place = data.draw(st.integers(0, len(sealed) - 1))
    with pytest.raises(Damaged):
        unseal(sealed[:place])
    change = data.draw(st.integers(1, 255))
    with pytest.raises(Damaged):
        unseal(sealed[:place] + bytes([sealed[place] ^ change]) + sealed[place + 1 :])


@given(ANSWERS, st.integers(1, 200))
def test_replies(answer, cut):
    text = encode(answer)
    assert decode(text) == decode(text + "\n") == answer
    with pytest.raises(Damaged):
        decode(text[:-cut])


@pytest.mark.parametrize(
    "log", [os.urandom(LOG_LIMIT), bytes(place % 32 for place in os.urandom(LOG_LIMIT))]
)
def test_the_longest_replies_fit_the_output_of_a_command(log):
    text = log.decode("utf-8", "replace")
    states = {name: {"state": "failed", "error": "x" * 100, "seconds": 0.1} for name in "abcde"}
    assert len(encode({"log": text, "sets": states, "offset": 9**9})) < OUTPUT_LIMIT
    data = base64.b64encode(os.urandom(CHUNK)).decode()
    assert len(encode({"data": data, "size": 9**9})) < OUTPUT_LIMIT


def test_an_answer_that_cannot_fit_is_refused():
    with pytest.raises(ValueError, match="a reply has"):
        encode({"data": os.urandom(40_000).hex()})


def test_files():
    files = {"a.json": b"{}", "b.log": os.urandom(1000)}
    assert unpack(pack(files), {"a.json", "b.log", "c"}) == files


@pytest.mark.parametrize("name", ["../job.json", "/etc/passwd", "other.json", "a/../../b"])
def test_names_that_nobody_asked_for(name):
    with pytest.raises(Damaged, match="nobody asked for"):
        unpack(pack({name: b""}), {"a.json"})


def test_the_newest_environment_is_chosen(tmp_path):
    plain = ("pytorch_2_8", "pytorch_2_10", "pytorch_2_9", "torch_neuronx_2_14_0")
    for name in (*plain, "pytorch_2_11_nxd", "pytorch_inference_vllm_2_29", "jax_0_6"):
        (tmp_path / f"aws_neuronx_venv_{name}" / "bin").mkdir(parents=True)
        (tmp_path / f"aws_neuronx_venv_{name}" / "bin" / "python").touch()
    (tmp_path / "aws_neuronx_venv_pytorch_3_0").mkdir()  # without Python
    chosen = choose_venv(str(tmp_path / "aws_neuronx_venv_pytorch_*"))
    assert chosen.name == "aws_neuronx_venv_pytorch_2_10"
    assert choose_venv(str(tmp_path / "aws_neuronx_venv_jax_0_6")).name.endswith("jax_0_6")
    assert choose_venv(str(tmp_path / "aws_neuronx_venv_*")).name.endswith("torch_neuronx_2_14_0")
    with pytest.raises(FileNotFoundError, match="matches"):
        choose_venv(str(tmp_path / "nothing_*"))

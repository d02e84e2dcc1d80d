import json
from pathlib import Path

import pytest

import nki_sim
from nki_sim import hardware
from nki_sim.base.time_range import time_range
from nki_sim.commands.findings import is_users
from nki_sim.measured_times import about


def expected(folder, chip, name, *specs):
    """The same timeline by the simulator's functions."""
    from nki_sim.commands.kernel_file import named_kernel

    with hardware.select(hardware.chip(chip)):
        return nki_sim.dry_run(named_kernel(f"{folder}/kernels.py::{name}"), *specs)


def test_the_modelled_time_of_shapes(here, folder):
    code, out, err = here("profile", "kernels.py::double", "--shape", "128x512", "--target", "trn2")
    timeline = expected(folder, "trn2", "double", ((128, 512), "float32"))
    first, *_ = out.splitlines()
    assert (code, err) == (0, "")
    time = time_range(timeline.total_ns, timeline.low_ns, timeline.high_ns)
    assert first == f"double: {time} modelled on trn2, LNC=1, 3 instructions"
    both = (
        f"launch   with a launch, about {about(timeline.with_launches_ns)}. A launch by TorchNeuron"
    )
    assert both in out
    assert f"SBUF {timeline.sbuf_peak_bytes:,} bytes a partition" in out
    assert "at kernels.py:" in out  # the critical path names lines


@pytest.mark.parametrize(
    "arguments",
    [
        ("--shape", "128x8", "--arg", "0.5", "--arg", "8"),
        ("--shape", "128x8", "--arg", "0.5", "8"),
        ("--shape", "128x8", "--arg", "0.5", "--arg", "columns=8"),
        ("--arg", "columns=8", "--shape", "x=128x8:float32", "--arg", "factor=0.5"),
    ],
)
def test_arguments_by_order_and_by_name(here, folder, arguments):
    code, out, _ = here("profile", "kernels.py::scaled", *arguments, "--target", "trn1")
    timeline = expected(folder, "trn1", "scaled", ((128, 8), "float32"), 0.5, 8)
    assert code == 0 and f" {time_range(timeline.total_ns)} (" in out


def test_the_kernel_is_named_before_its_shapes(here):
    code, _, err = here("profile", "--shape", "128x8", "kernels.py::double")
    assert code == 2
    assert "'kernels.py::double' is not a shape: name the kernel before the shapes" in err


def test_json_is_the_timelines_summary(here, folder):
    run = "profile", "kernels.py::double", "--shape", "128x64:bfloat16", "--target", "trn3"
    code, out, _ = here(*run, "--json", "-")
    timeline = expected(folder, "trn3", "double", ((128, 64), "bfloat16"))
    found = json.loads(out)
    assert code == 0
    assert found["with_launches_ns"] == timeline.with_launches_ns == timeline.total_ns + 60e3
    assert found["total_ns"] == timeline.total_ns and found["kernels"] == ["double"]
    assert found["dma_bytes"] == timeline.dma_bytes and found["modelled"] is True
    assert found["critical_path"][0]["source"]["file"].endswith("kernels.py")


def test_report_names_its_page_after_the_kernel(here, folder):
    code, _, err = here("report", "kernels.py::double", "--shape", "128x64")
    assert (code, err) == (0, "wrote double.html\n")
    assert "double" in (folder / "double.html").read_text("utf-8")


def test_two_cores(here, folder):
    code, _, err = here("profile", "kernels.py::double", "--shape", "128x64", "--lnc", "2")
    assert code == 2 and err == "nki-sim: --lnc is 2, allowed on trn1 is 1\n"
    run = "profile", "kernels.py::double", "--shape", "128x64", "--lnc", "2", "--target", "trn2"
    code, _, err = here(*run, "--sarif", "found.sarif")
    assert code == 1 and "no nisa.core_barrier orders these accesses" in err
    assert err.startswith("kernels.py:13: error: ") and err.count("(kernels.py:13)") == 2
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    assert run["results"][0]["ruleId"] == "hardware-rule"


def test_a_broken_rule_is_said_with_its_line(here, folder):
    code, out, err = here("profile", "kernels.py::double", "--shape", "256x4")
    assert code == 1 and out == ""
    assert err.startswith(
        "kernels.py:10: error: nl.ndarray: shape[0] is 256, but a tile in SBUF or PSUM has"
    )


def test_another_error_is_shown_with_the_users_lines(here, folder):
    (folder / "wrong.py").write_text("def kernel(x):\n    return x.shape[3]\n")
    code, _, err = here("profile", "wrong.py::kernel", "--shape", "128x8")
    assert code == 1 and "in kernel\n    return x.shape[3]" in err
    assert "wrong.py:2: error: IndexError" in err and "nki_sim" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("kernels.py",),
            "has 3 kernels: name one as kernels.py::name. Its kernels are double, scaled",
        ),
        (
            ("kernels.py::dubble",),
            "has no kernel 'dubble'. Its kernels are double, scaled",
        ),
        (("absent.py::double",), "absent.py: there is no such file"),
        (("kernels.py::scaled", "--shape", "128x8"), "argument of scaled(x, factor, columns=4)"),
        (("kernels.py::double", "--shape", "12by3"), "'12by3' is not a shape, allowed are sizes"),
        (("kernels.py::double", "--shape", "4x4:float99"), "'float99' is not a dtype of NKI"),
        (("kernels.py::double", "--target", "trn9"), "invalid choice: 'trn9'"),
        (
            ("kernels.py::double", "--shape", "8x8", "--json", "no/x"),
            "no/x cannot be written, as its folder does not exist",
        ),
    ],
)
def test_what_cannot_be_done_is_a_sentence(here, arguments, said):
    code, out, err = here("profile", *arguments)
    assert code == 2 and said in err and "Traceback" not in err


SKIPPED = """
import nki
import nki.language as nl


@nki.jit
def skipped(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0] - 127, 128):
        raise AssertionError
    return out, x
"""


@pytest.mark.lenient
def test_an_output_that_nothing_writes_is_told_without_data(here, folder):
    (folder / "skipped.py").write_text(SKIPPED)
    code, out, err = here("profile", "skipped.py", "--shape", "100x4")
    assert (code, err) == (0, "") and out.count("memory that nothing has written") == 1
    found = "skipped.py:8: warning: return: operand is shared_hbm tile 100x4 float32 (out of "
    assert f"{found}skipped.py:8), but the kernel returns memory that nothing has" in out
    assert "all 100 rows" in out


@pytest.mark.lenient
def test_memory_that_nothing_wrote_is_told_without_data(here, more):
    code, out, _ = here("profile", "kernels.py::half_loaded", "--shape", "128x8")
    assert code == 0
    where = "operand is sbuf tile 128x8 float32 (tile of kernels.py:30), but the instruction at "
    assert f"kernels.py:32: warning: nisa.dma_copy: {where}kernels.py:32 reads memory" in out
    assert "partitions 0 to 127 (tile[0:128, 4:8])" in out
    code, _, err = here("profile", "kernels.py::half_loaded", "--shape", "128x8", "--strict")
    assert code == 1 and err.startswith("kernels.py:32: error: nisa.dma_copy: operand is sbuf")
    code, _, err = here("profile", "more.py::never_reset", "--shape", "128x128")
    assert code == 1 and "more.py:12: error: nisa.nc_matmul: accumulate is True" in err


def test_what_only_the_schedule_shows_has_its_line_and_rule(here, folder, more):
    given = "profile", "more.py::ahead", "--shape", "512x12288", "--target", "trn2"
    (folder / "found.html").write_text("of another kernel")
    code, _, err = here(*given, "--strict", "--sarif", "found.sarif", "--html", "found.html")
    assert code == 1 and "more.py:21: error" in err and "found.html was not written" in err
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "dma-written-ahead"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 21


FULL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def full(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    wide = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=wide[:, 0:512], value=0.0)
    tiles = []
    for _ in range(7):
        tiles.append(nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum))
        nisa.memset(dst=tiles[-1], value=0.0)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    for tile in tiles:
        nisa.tensor_copy(dst=total, src=tile)
    nisa.tensor_copy(dst=total, src=wide[:, 0:512])
    nisa.dma_copy(dst=out, src=total)
    return out
"""


def test_full_memory_is_said_with_the_tiles_that_fill_it(here, folder):
    (folder / "full.py").write_text(FULL)
    code, _, err = here("profile", "full.py", "--shape", "1x1")
    assert code == 1
    assert err.startswith(
        "full.py:15: error: kernel: the tile to allocate is psum tile 128x512 float32, but 18432"
    )
    assert (
        "The live tiles are 7 x psum tile 128x512 float32 first used at full.py:15, 1 x psum" in err
    )
    assert "1024 float32 first used at full.py:11" in err


ODD = """
import os
import sys


class NoText(Exception):
    def __str__(self):
        raise ValueError


def exits(x):
    sys.exit(0)


def says_nothing(x):
    raise NoText


def generator_ends(x):
    raise GeneratorExit


def moves(x):
    os.chdir("..")
    exits(x)
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exits", "odd.py:12: error: RuntimeError: kernel exits ends the program by sys.exit(0), "),
        ("says_nothing", "odd.py:16: error: NoText: an error without a text [NoText]"),
        ("generator_ends", "odd.py:20: error: GeneratorExit"),
        ("moves", "odd.py:12: error: RuntimeError: kernel moves ends the program by sys.exit(0), "),
    ],
)
def test_no_error_of_a_kernel_looks_like_success(here, folder, name, said):
    (folder / "odd.py").write_text(ODD)
    outputs = "--json", "found.json", "--sarif", "found.sarif"
    code, out, err = here("profile", f"odd.py::{name}", "--shape", "128x8", *outputs)
    assert (code, out) == (1, "") and said in err and "found.json was not written" in err
    assert (folder / "found.sarif").is_file()


def test_files_are_written_where_it_was_started(here, folder):
    moves = "import os\n\nos.chdir('..')\n"
    (folder / "moved.py").write_text(moves + (folder / "kernels.py").read_text())
    code, _, err = here("profile", "moved.py::double", "--shape", "128x8", "--json", "found.json")
    assert (code, err) == (0, "") and (folder / "found.json").is_file()


def test_a_folder_whose_name_begins_like_the_packages_is_the_users():
    package = Path(nki_sim.__file__).parent
    assert is_users(f"{package}_kernels/own.py") and not is_users(str(package / "running.py"))

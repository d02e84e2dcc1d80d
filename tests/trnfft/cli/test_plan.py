"""`trnfft plan` prints the tree and the candidates, and writes its files whole or not at all."""

import json
import sys

import pytest
from typer.testing import CliRunner

import trnfft
from nki_sim import hardware
from nki_sim.base.time_range import time_range
from nki_sim.measured_times import about
from trnfft import cli
from trnfft.cli.plan import draw_prices, price_of, priced_lengths
from trnfft.planner.plan import Plan


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `trnfft plan ...` in a folder of its own, on a wide terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: CliRunner().invoke(cli.app, ["plan", *map(str, arguments)])


def test_tree_and_candidates(run):
    result = run(1024, "--batch", 128, "--target", "trn2")
    assert result.exit_code == 0, result.output
    for part in ("batch 128, fast, trn2, LNC=2", "stockham", "radix", "chosen", "launched"):
        assert part in result.stdout
    assert "DMA floor" in result.stdout and "times as long" in result.stdout
    assert "butterfly 1024" in result.stdout


def test_shapes_and_real_data(run):
    result = run("--shape", "48x256", "--real", "--batch", 3)
    assert result.exit_code == 0, result.output
    for part in ("FFT of real data, 48 x 256, batch 3", "real_axes by axis 1", "axis 0", "chosen"):
        assert part in result.stdout
    result = run("--shape", "48x256", "--real", "--inverse", "--padded-from", "30x200")
    assert result.exit_code == 0, result.output
    assert "inverse FFT to real data, 48 x 256 for 30 x 200, batch 1" in result.stdout
    orders = run("--shape", "8x6x10", "--all").stdout
    assert orders.count("axes by") == 6
    assert run("--shape", "8x6x10").stdout.count("axes by") == 1


def test_lengths_of_real_data_and_padded_ones(run):
    assert "FFT of real data, N = 1000" in run(1000, "--real").stdout
    assert "inverse FFT, N = 1000" in run(1000, "--inverse").stdout
    assert "inverse_real_stockham" in run(1000, "--real", "--inverse").stdout
    assert "FFT, 1000 for 600" in run(1000, "--padded-from", 600).stdout
    assert run("--shape", 1000).stdout == run(1000).stdout


@pytest.mark.parametrize(
    ("target", "beside", "note"),
    [
        ("trn1", 420, "A launch by PyTorch/XLA takes 140 to 700 us, as others measured on trn1."),
        ("trn2", 60, "a compiled graph 95 to 100 us, as others measured on a trn2.3xlarge."),
        ("trn3", 60, "measured on trn3"),
    ],
)
def test_times_stand_beside_those_with_a_launch(run, target, beside, note):
    plan = trnfft.plan(1000, batch=128, target=target)
    assert plan.with_launches_ns == plan.predicted_ns + 1e3 * beside
    text = run(1000, "--batch", 128, "--target", target).stdout
    time = time_range(plan.predicted_ns, plan.low_ns, plan.high_ns, "us")
    assert plan.low_ns < plan.predicted_ns < plan.high_ns and f"{time}  " in text
    both = f"kernel {time}, modelled; with a launch, about "
    assert both + about(plan.with_launches_ns) in text
    lines = text.splitlines()
    (heading,) = [line for line in lines if line.split()[:2] == ["kernel", "launched"]]
    chosen = lines[lines.index(heading) + 2]
    assert f"  {about(plan.with_launches_ns)}  " in chosen and chosen.endswith("  chosen")
    place = heading.index("launched") + len("launched")
    assert chosen[:place].endswith(about(plan.with_launches_ns))
    assert note in " ".join(text.split())


@pytest.mark.parametrize(
    "arguments",
    [
        (1024,),
        (4099, "--real"),
        (1000, "--batch", 128, "--all", "--target", "trn2"),
        ("--shape", "1080x1920", "--all"),
        ("--shape", "48x256", "--real", "--inverse", "--padded-from", "30x200"),
        (1000, "--precision", "double"),
    ],
    ids=str,
)
def test_lines_fit_the_terminal_and_break_between_words(run, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "1000")
    words = set(run(*arguments).stdout.split())
    for columns in (80, 120, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = run(*arguments).stdout
        assert set(text.split()) == words
        assert max(map(len, text.splitlines())) <= columns


def test_all_lists_every_candidate(run):
    size = 1000, "--batch", 128, "--target", "trn1"
    short, full = run(*size).stdout, run(*size, "--all").stdout
    assert full.count("stockham 1000") > short.count("stockham 1000") >= 1


def test_a_candidate_without_a_price_shows_what_it_takes_at_least(run):
    plan = trnfft.plan(1000, batch=128, target="trn1")
    (beaten,) = [each for each in plan.candidates if each.recipe.algorithm == "bluestein"]
    assert beaten.predicted_ns is None and beaten.least_ns >= plan.predicted_ns
    table = run(1000, "--batch", 128, "--target", "trn1").stdout
    assert f"> {beaten.least_ns / 1e3:.4g} us" in table
    ratio = beaten.least_ns / plan.predicted_ns
    assert beaten.rejected == f"takes {ratio:.3g} times as long or more"


def test_algorithms_that_cannot_for_one_reason_share_a_row(run):
    table = run(40000, "--target", "trn1").stdout
    assert table.count("takes N <= 256") == 1
    assert "\ndft_gemm, dft_gemm_bf16_refined, dft_gemm_bf16\n" in table
    assert "\nbluestein 40000\n" in table  # alone with its reason
    assert run(40000, "--target", "trn1", "--all").stdout.count("takes N <= 256") == 3


def test_json(run):
    result = run(1000, "--batch", 128, "--target", "trn1", "--json")
    assert result.exit_code == 0, result.output
    assert Plan.from_json(result.stdout) == trnfft.plan(1000, batch=128, target="trn1")
    shape = run("--shape", "48x256", "--real", "--target", "trn1", "--json").stdout
    assert Plan.from_json(shape) == trnfft.plan(shape=(48, 256), real=True, target="trn1")
    plan = trnfft.plan(1000, batch=128, target="trn1")
    assert json.loads(result.stdout)["with_launches_ns"] == plan.with_launches_ns
    on_host = json.loads(run(8, "--precision", "double", "--json").stdout)
    assert on_host["with_launches_ns"] is None


def test_chip_and_degree_of_lnc(run, monkeypatch):
    """By option, else by the environment, else what the chip has; said with every time."""

    def first(*arguments):
        result = run(64, *arguments)
        assert result.exit_code == 0, result.output
        title, _, *rest = result.stdout.splitlines()
        where = title.partition("fast, ")[2]
        assert any(f"modelled on {where}" in line for line in rest)
        return where

    assert first("--target", "trn2") == first("--target", "trn2", "--lnc", 2) == "trn2, LNC=2"
    assert first("--target", "trn2", "--lnc", 1) == "trn2, LNC=1"
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn3")
    assert (first(), first("--target", "trn1")) == ("trn3, LNC=2", "trn1, LNC=1")
    monkeypatch.setenv(hardware.LNC_VARIABLE, "1")
    assert first() == "trn3, LNC=1"
    monkeypatch.setenv(hardware.LNC_VARIABLE, "4")
    result = run(64)
    assert result.exit_code == 2
    assert "is '4'" in result.output and "allowed on trn3 is 1 or 2" in result.output


def test_perfetto(run, tmp_path):
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    result = run(64, "--perfetto", "plan.pftrace")
    assert result.exit_code == 0, result.output
    trace = protos.Trace.FromString((tmp_path / "plan.pftrace").read_bytes())
    details = {a.name for p in trace.packet for a in p.track_event.debug_annotations}
    assert {"source", "operands", "waited_for"} <= details
    assert run("--shape", "8x12", "--real", "--perfetto", "shape.pftrace").exit_code == 0
    assert (tmp_path / "shape.pftrace").exists()


def test_a_trace_names_the_package_that_it_needs(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    result = run(64, "--perfetto", "plan.pftrace")
    assert result.exit_code == 2
    assert 'the trace needs perfetto, which the extra "report" of trnfft-nki' in " ".join(
        result.output.split()
    )
    assert list(tmp_path.iterdir()) == []


def test_plot_marks_n_and_draws_lines_through_powers_of_two(run, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("trnfft.cli.plan.PLOTTED", 2**12)
    result = run(1000, "--batch", 128, "--target", "trn1", "--plot", "prices.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "prices.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    found = trnfft.plan(1000, batch=128, target="trn1")
    (axes,) = draw_prices(found).axes
    assert [plan.n for plan in priced_lengths(found)] == [2**k for k in range(1, 13)]
    lines = {line.get_label(): line.get_xdata() for line in axes.lines}
    assert list(lines["N = 1000"]) == [1000, 1000]
    assert set(lines["four_step"]) == {2**k for k in range(8, 13)}
    stars = [line for line in axes.lines if line.get_marker() == "*"]
    # Bluestein's, which the plan rejects without a price, is made for the plot.
    made = [price_of(one, found) for one in found.candidates]
    prices = {ns / 1e3 for ns in made if ns is not None}
    assert len(stars) == 3
    for star in stars:
        assert list(star.get_xdata()) == [1000]
        assert star.get_ydata()[0] in prices
        (line,) = (o for o in axes.lines if o.get_color() == star.get_color() and o not in stars)
        assert line.get_label() in ("four_step", "stockham", "bluestein")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ((0,), "'n' is 0"),
        ((8, "--batch", 0), "'batch' is 0"),
        ((8, "--target", "trn9"), "trn9"),
        ((8, "--lnc", 2), "LNC, is 2, allowed is 1: trn1 has degree 1 only"),
        ((8, "--lnc", 3, "--target", "trn3"), "LNC, is 3, allowed is 1 to 2 on trn3"),
        ((8, "--precision", "best"), "best"),
        ((2**30,), "N = 1073741824"),
        ((8, "--plot", "missing/a.png"), "no folder missing"),
        ((8, "--perfetto", "/dev/null"), "not a regular file"),
        ((8, "--precision", "double", "--perfetto", "a.pftrace"), "no timeline"),
        ((), "'N' is missing"),
        ((8, "--shape", "8x8"), "'N' and '--shape' are 8 and 8x8"),
        (("--shape", "8,8"), "'--shape' is '8,8', allowed are sizes"),
        (("--shape", "8x"), "'--shape' is '8x', allowed are sizes"),
        (("--shape", "0x8"), "'--shape' is '0x8', allowed are sizes of 1 or more"),
        (("--shape", ""), "'--shape' is '', allowed are sizes"),
        (("--shape", "8x8", "--padded-from", "8"), "'padded_from' is (8,)"),
        (("--shape", "8x8", "--padded-from", "9x8"), "'padded_from' is (9, 8)"),
        (("--shape", "8x8", "--padded-from", "-1x8"), "'--padded-from' is '-1x8'"),
        (("--shape", "4194319x8"), "axis 0 of length 4194319"),
        (("--shape", "257x8", "--perfetto", "a.pftrace"), "several launches, one an axis; ask for"),
        (("--shape", "8x8", "--plot", "a.png"), "'--plot' is a.png, allowed only with N"),
        ((8, "--json", "--plot", "a.png"), "'--json' prints nothing but the plan"),
        ((8, "--json", "--perfetto", "a.pftrace"), "'--json' prints nothing but the plan"),
        ((8, "--padded-from", "4", "--plot", "a.png"), "'--plot' is a.png, allowed only with N"),
    ],
    ids=str,
)
def test_refusals_are_one_sentence(run, tmp_path, arguments, sentence):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []

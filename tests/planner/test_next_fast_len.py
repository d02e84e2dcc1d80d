"""next_fast_len returns a length near its target that is cheaper than the obvious alternatives."""

import platformdirs
import pytest

import trnfft
from nki_sim import hardware
from trnfft.planner import bounds, cost, lengths, planner
from trnfft.planner.factorization import prime_factors
from trnfft.planner.kinds import Transform
from trnfft.planner.plan import Candidate, Plan, Recipe


def test_short_lengths_are_as_they_are():
    assert [trnfft.next_fast_len(n) for n in range(1, 129)] == list(range(1, 129))


def test_a_length_whose_plan_is_known_needs_no_search(monkeypatch, tmp_path):
    searched = []

    def cheap(recipe, batch, chip, cores):
        searched.append(recipe.n)
        return cost.Price(float(recipe.n), "dma", 1, 100, 0, float(recipe.n), float(recipe.n))

    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path))
    monkeypatch.setattr(cost, "price", cheap)
    monkeypatch.setattr(bounds, "least_ns", lambda recipe, problem: float(recipe.n))
    planner.forget()
    lengths.forget()
    assert trnfft.next_fast_len(299) == 300 and 336 in searched
    lengths.forget()
    monkeypatch.setattr(planner, "search", None)
    assert trnfft.next_fast_len(299) == 300
    planner.forget()
    lengths.forget()


@pytest.mark.weekly
@pytest.mark.sweep
def test_lengths_beyond_the_kernels_are_smooth():
    length = trnfft.next_fast_len(10**8 + 1)
    assert length > 10**8 and prime_factors(length)[-1] <= 13
    assert all(prime_factors(n)[-1] > 13 for n in range(10**8 + 1, length))


@pytest.mark.parametrize("real", [False, True])
def test_lengths_are_ranked_in_the_precision_of_the_context(real):
    targets = (1, 2, 63, 100, 129, 2049, 4096)
    with trnfft.precision("kahan"):
        assert [trnfft.next_fast_len(n, real) for n in targets] == [1, 2, 64, 128, 256, 4096, 4096]
        for n in targets:
            trnfft.plan(trnfft.next_fast_len(n, real), real=real)
        beyond = trnfft.next_fast_len(5000, real)  # no kernel is that accurate, but smooth
        assert 5000 <= beyond < 8192 and prime_factors(beyond)[-1] <= 13
    assert trnfft.next_fast_len(100, real) == 100


@pytest.fixture
def asked(monkeypatch):
    """What plans are asked for; prices are lengths."""
    found = []

    def plan(n, **options):
        found.append((n, options))
        settings = {"precision": "fast", "target": "trn1", "max_error": 1.0}
        kind = Transform((n,))
        choice = Candidate(Recipe("stockham", kind), float(n))
        return Plan(kind=kind, candidates=(choice,), **settings)

    monkeypatch.setattr(lengths, "plan", plan)
    lengths._next_fast_len.cache_clear()
    yield found
    lengths._next_fast_len.cache_clear()


def test_lengths_that_do_not_fit_are_left_out(asked, monkeypatch):
    plan = lengths.plan

    def fitting(n, **options):
        if n != 70200:
            raise NotImplementedError
        return plan(n, **options)

    monkeypatch.setattr(lengths, "plan", fitting)
    monkeypatch.setattr(lengths, "_likeliest", lambda lengths: [70070, 70200, 70400])
    assert trnfft.next_fast_len(70000) == 70200


@pytest.mark.parametrize("precision", ["fast", "bf16", "bf16_refined"])
def test_long_lengths_are_ranked_by_prices_of_the_precision(asked, precision):
    with trnfft.precision(precision):
        trnfft.next_fast_len(300)
    assert {options["precision"] for _, options in asked} == {precision}
    count = len(asked)
    with trnfft.precision("kahan"):
        trnfft.next_fast_len(300)
    with trnfft.precision("fast"):
        trnfft.next_fast_len(300)
    assert len(asked) == (count if precision == "fast" else 2 * count)  # remembered apart


def test_real_lengths_stay_as_they_are_up_to_256(asked):
    assert [trnfft.next_fast_len(n, real=True) for n in (127, 131, 251, 256)] == [
        127,
        131,
        251,
        256,
    ]
    assert trnfft.next_fast_len(128) == 128
    assert asked == []
    assert trnfft.next_fast_len(131) > 131
    assert trnfft.next_fast_len(257, real=True) > 257
    assert len({options["real"] for _, options in asked}) == 2


@pytest.mark.parametrize(
    "target, real, priced",
    [
        (176, False, [176, 180, 192]),  # not 256, which is more than a quarter longer
        (300, False, [300, 312, 320, 336]),
        (2049, False, [2058, 2080, 2106, 2160]),
        (7800, False, [7875, 7938]),  # of Stockham's stages and of the four-step's, ranked apart
        (20000, False, [20160, 20328]),  # too long for them: only the four-step's are ranked
        # A large second radix: 1024 = 16 x 64, 1080 = 18 x 60 and so on; not 1029 = 21 x 49.
        (1009, True, [1024, 1080, 1134, 1152]),
        (300, True, [300, 315, 320, 312]),
    ],
)
def test_few_lengths_are_priced(asked, target, real, priced):
    assert trnfft.next_fast_len(target, real) == priced[0]
    assert [n for n, _ in asked] == priced
    assert {options["batch"] for _, options in asked} == {2**20 // target}


def test_prices_of_the_longest_lengths_are_for_one_transform(asked, monkeypatch):
    monkeypatch.setattr(lengths, "_likeliest", lambda lengths: lengths[:1])
    monkeypatch.setattr(lengths, "FAST_LENGTHS", 2)
    trnfft.next_fast_len(2**20 + 1)
    assert [options["batch"] for _, options in asked] == [1]


def test_the_longest_length_that_a_tensor_may_have():
    assert trnfft.next_fast_len(2**62) == 2**62


def test_prices_are_for_the_launches_of_the_chip_and_on_the_host_for_fast_ones(asked):
    trnfft.next_fast_len(300)
    with hardware.select(hardware.TRN2), trnfft.precision("double"):
        trnfft.next_fast_len(300)
    assert [tuple(options.values()) for _, options in asked[::4]] == [
        (False, 2**20 // 300, "fast", "trn1", 1),
        (False, 2**20 // 300, "fast", "trn2", 2),
    ]

"""Results are written whole, and checked when they are read."""

import json

import pytest

from bench.results import Latency, Missing, Results, ResultsError, Row, load, save

ASKED = {"operation": "o", "case": "c", "algorithm": "", "shape": (8,), "batch": 2}


def results(environment, **row):
    latency = Latency(min_us=1.0, p50_us=2.0, p90_us=3.0, p99_us=4.0, mean_us=2.5, calls=9)
    return Results(
        program="run",
        backend="nki",
        target="trn1",
        environment=environment,
        rows=[
            Row(**ASKED, precision="fast", backend="nki", target="trn1", latency=latency, **row),
        ],
        missing=[Missing(**ASKED, precision="kahan", reason="none", is_failure=False)],
    )


@pytest.fixture
def document(environment_of_a_chip):
    """Valid results as JSON types."""
    return json.loads(results(environment_of_a_chip).model_dump_json())


def test_what_is_read_is_what_was_written(environment_of_a_chip, tmp_path):
    written = results(environment_of_a_chip, kernel_us=1.5, kernel_time_source="measured")
    save(written, tmp_path / "a.json")
    assert load(tmp_path / "a.json") == written


def test_time_of_a_row(environment_of_a_chip):
    (row,) = results(environment_of_a_chip).rows
    assert (row.time_us, row.time_source) == (2.0, "host")
    (row,) = results(environment_of_a_chip, kernel_us=1.5, kernel_time_source="modelled").rows
    assert (row.time_us, row.time_source) == (1.5, "modelled")
    assert row.key == results(environment_of_a_chip).rows[0].key


def test_writing_fails_as_a_whole(environment_of_a_chip, tmp_path):
    with pytest.raises(OSError):
        save(results(environment_of_a_chip), tmp_path / "absent" / "a.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change, named",
    [
        (lambda d: d.update(version=2), "version"),
        (lambda d: d.update(format="x"), "format"),
        (lambda d: d.pop("environment"), "environment"),
        (lambda d: d["environment"].pop("nki"), "environment.nki"),
        (lambda d: d["rows"][0].update(batch="2"), "rows.0.batch"),
        (lambda d: d["rows"][0].update(samples=[1, 2]), "rows.0.samples"),
        (lambda d: d["rows"][0].update(kernel_time_source="guessed"), "rows.0.kernel_time_source"),
        (lambda d: d["rows"][0]["latency"].update(p50_us=None), "rows.0.latency.p50_us"),
        (lambda d: d["missing"][0].pop("reason"), "missing.0.reason"),
    ],
)
def test_errors_name_file_and_field(document, tmp_path, change, named):
    change(document)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ResultsError, match="wrong.json") as raised:
        load(path)
    assert f"{named}: " in str(raised.value)
    assert "http" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"rows": NaN}'])
def test_what_is_no_results_file(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ResultsError, match="a.json holds no results"):
        load(tmp_path / "a.json")


def test_absent_file(tmp_path):
    with pytest.raises(ResultsError, match="cannot read .*absent.json"):
        load(tmp_path / "absent.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_are_finite(environment_of_a_chip, value):
    with pytest.raises(ValueError, match="finite"):
        results(environment_of_a_chip, kernel_us=value)

"""The hook that the modules test_*_bench.py share."""


def pytest_benchmark_update_json(config, benchmarks, output_json):
    """Removes the single samples from reports of --benchmark-json; their statistics stay."""
    for each in output_json["benchmarks"]:
        each["stats"].pop("data", None)

"""What the modules test_*_bench.py share."""


def pytest_benchmark_update_json(config, benchmarks, output_json):
    """Reports of --benchmark-json keep the statistics, not every single sample."""
    for each in output_json["benchmarks"]:
        each["stats"].pop("data", None)

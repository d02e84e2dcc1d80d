"""Writes docs/aws_kernels.md from the stored results of scripts/aws_kernels.py."""

from __future__ import annotations

from typing import Any

from nki_sim import hardware
from nki_sim.base.releases import NEWEST
from nki_sim.measured_times import about

_SOURCES = {
    "nki-library": "https://github.com/aws-neuron/nki-library",
    "nki-samples": "https://github.com/aws-neuron/nki-samples",
    "aws-neuron-sdk": "https://github.com/aws-neuron/aws-neuron-sdk",
}


def page(results: dict[str, Any]) -> str:
    """Returns the page: what was run, and tables of the cases.

    Args:
        results: the content of scripts/aws_kernels.json.
    """
    parts = [
        _introduction(results),
        _cases(results["cases"]),
        _other_cases(results["cases"]),
    ]
    return "\n".join(parts)


def _introduction(results: dict[str, Any]) -> str:
    cases = results["cases"]
    matching, refused = (_count(cases, status) for status in ("matches", "refused"))
    helped = sum(row["status"] == "matches" and bool(_helped(row)) for row in cases)
    commits = [
        f"[{name}]({url}) at `{results['commits'][name][:12]}`" for name, url in _SOURCES.items()
    ]
    return f"""# AWS's kernels

<!-- Written by scripts/aws_kernels.py: change scripts/aws_cases instead. -->

This page shows how well the simulator runs code that was written for the chip. AWS publishes the
source code of kernels that run on its chips. The script below runs these files, unchanged, in the
simulator, and compares the results with references:

{"".join(f"- {line}" + chr(10) for line in commits)}
{matching} of {len(cases)} cases match their reference. {helped} of these need a rule waived,
integers replaced or an older NKI, as explained below. The simulator refuses the other {refused}
cases, for the reasons in the second table.

```sh
python scripts/aws_kernels.py NKI_LIBRARY NKI_SAMPLES SDK   # three checkouts; writes this page
```

The references are computed in float64 by NumPy, or in float32 by the torch functions that
nki-library has beside its kernels. The error of an output is its largest difference from the
reference, divided by the largest value of the reference. The times of kernels are modelled: nothing
ran on a chip. The column beside them shows the approximate time with a launch, as
[others measured launches](timing_model.md#launches).
"""


def _count(rows: list[dict[str, Any]], status: str) -> int:
    return sum(row["status"] == status for row in rows)


def _cases(rows: list[dict[str, Any]]) -> str:
    lines = [
        "## Cases that match",
        "",
        "*trn2 x 2* means a launch on two cores. In the last column, *integers* means that the",
        "kernel passes a `dge_mode` as an integer, which NKI has refused since 0.3.0; the case ran",
        "with members of `nisa.dge_mode` in place of the integers. A name in the last column is a",
        "[rule about real chips](simulator.md#what-chips-got-wrong) that the kernel breaks; the",
        "case ran with this rule waived. *NKI 0.6* means that the kernel calls what NKI 0.7 has",
        "removed; the case ran with [release 0.6](simulator.md#releases-of-nki). All other cases",
        "ran with release 0.7.",
        "",
        "| kernel | case | chip | largest error | kernel, modelled us | with a launch, about "
        "| needs |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for row in rows:
        if row["status"] == "matches":
            error, time = row["largest_error"], row["modelled_us"]
            launched = hardware.chip(row["chip"]).with_launches_ns(1e3 * time, 1)
            figures = [f"{error:.1e}" if error else "0", f"{time:.1f}", about(launched)]
            lines.append(_line(*_what(row), *figures, _helped(row)))
    return "\n".join(lines) + "\n"


def _other_cases(rows: list[dict[str, Any]]) -> str:
    headings = ["| kernel | case | chip | reason |", "|---|---|---|---|"]
    lines = ["## Cases that do not match", "", *headings]
    for row in rows:
        if row["status"] != "matches":
            why = f"**{row['status']}**: {_escaped(row['reason'])}".removesuffix(": ")
            lines.append(_line(*_what(row), why))
    return "\n".join(lines) + "\n"


def _what(row: dict[str, Any]) -> list[str]:
    name = row["kernel"].replace("_", "_<wbr>")  # a line may break after an underscore
    cores = f"&nbsp;x&nbsp;{row['cores']}" if row["cores"] > 1 else ""
    return [f"<code>{name}</code>", row["shows"], row["chip"] + cores]


def _helped(row: dict[str, Any]) -> str:
    needs = [f"`{name}`" for name in row["waives"]]
    if row["names_modes"]:
        needs.append("integers")
    if row["release"] != NEWEST:
        needs.append(f"NKI {row['release']}")
    return ", ".join(needs)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

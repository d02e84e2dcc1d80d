"""Changes of nki_sim/hardware.py that a report suggests: what, where and why.

This module edits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape

from bench.probes.modelled import constant_for
from bench.probes.registry import PROBES
from bench.probes.report import COMPLEX, REFUSED, RIGHT, UNANSWERED, WRONG, Answer, Report
from nki_sim import hardware
from nki_sim.rules.device_rules import RULES

SOURCE = "nki_sim/hardware.py"
NEAR = 0.05  # relative; times rarely repeat better
SHOWN = 100  # characters of a reason that are shown
DIGITS = 3  # of a proposed constant
# The value of a field after all probes of its rule were right. One chip contradicts a record of
# wrong results, but does not withdraw it.
AFTER_RIGHT = {
    hardware.WRONG: hardware.CONTESTED,
    hardware.CONTESTED: hardware.FINE,
    hardware.DOUBTFUL: hardware.FINE,
    hardware.FINE: hardware.FINE,
}


@dataclass(frozen=True)
class Proposal:
    """A field of a chip that should change."""

    chip: str
    field: str
    today: Any
    proposed: Any
    why: str


@dataclass
class Findings:
    """The results of a report: changes, fields that stay, and sentences for a person to judge."""

    changes: list[Proposal] = field(default_factory=list)
    agreed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def findings(report: Report) -> Findings:
    """Returns the findings of a report from a chip.

    A report from the simulator yields only a note.
    """
    found = Findings()
    if report.is_modelled:
        found.notes.append(
            "the simulator answered: it computes by the model that probes are to check, so that "
            "this settles nothing and proposes nothing"
        )
        return found
    core = hardware.chip(report.target)
    by_rule: dict[str, list[Answer]] = {}
    by_field: dict[str, list[Answer]] = {}
    tensors = [answer for answer in report.answers if answer.probe.startswith(COMPLEX)]
    for answer in report.answers:
        if answer in tensors:
            continue
        probe = PROBES.get(answer.probe)
        if probe is None:
            found.notes.append(f"{answer.probe}: this version has no such probe")
        elif answer.verdict == UNANSWERED:
            found.notes.append(in_words(answer))
        elif probe.rule or probe.shown:
            if probe.rule:
                by_rule.setdefault(probe.rule, []).append(answer)
            if probe.shown:
                by_field.setdefault(probe.shown, []).append(answer)
        else:
            weigh_other(answer, core, found)
    for rule, answers in by_rule.items():
        weigh_rule(rule, answers, core, found)
    for name, answers in by_field.items():
        weigh_readings(name, answers, core, found)
    weigh_tensors(tensors, found)
    return found


def weigh_rule(
    rule: str, answers: list[Answer], core: hardware.NeuronCore, found: Findings
) -> None:
    """Adds what the answers to the probes of a rule say about its verdict."""
    name = RULES[rule].field
    today = getattr(core, name)
    is_whole = {a.probe for a in answers} == {p.name for p in PROBES.values() if p.rule == rule}
    why = ", ".join(in_words(answer) for answer in answers)
    # A result that another value of a field explains is right once the field has that value.
    bad = [a for a in answers if a.verdict in (WRONG, REFUSED) and value_of(a) is None]
    if bad or len({value_of(answer) for answer in answers}) > 1:
        add(found, core, name, today, hardware.WRONG, why)
    elif is_whole:
        add(found, core, name, today, AFTER_RIGHT[today], why)
    else:
        found.notes.append(f"{name} stays {today}: not all of its probes have an answer; {why}")


def weigh_readings(
    name: str, answers: list[Answer], core: hardware.NeuronCore, found: Findings
) -> None:
    """Adds what the results of all probes of a field say about its value, if they agree."""
    why = ", ".join(in_words(answer) for answer in answers)
    values = {value_of(answer) for answer in answers}
    today = getattr(core, name)
    if len(values) > 1:
        found.notes.append(f"{name} stays {today}: its probes do not agree; {why}")
    elif None in values:
        found.notes.append(f"{name} stays {today}: no value of it has such results; {why}")
    else:
        add(found, core, name, today, values.pop(), why)


def weigh_tensors(answers: list[Answer], found: Findings) -> None:
    """Adds what the answers about complex tensors say about complex storage.

    trnfft assumes that the device has no complex storage.
    """
    for where in dict.fromkeys(answer.framework for answer in answers):
        here = [answer for answer in answers if answer.framework == where]
        others = [answer for answer in here if answer.verdict != RIGHT]
        if not others:
            names = ", ".join(answer.probe for answer in here)
            found.notes.append(f"{names} are right: {here[0].settles} fits {where}")
        for answer in others:
            notes = found.notes if answer.verdict == UNANSWERED else found.agreed
            notes.append(f"{answer.settles} does not fit {where}: {in_words(answer)}")


def value_of(answer: Answer) -> Any:
    """Returns the value of the probe's field that a result shows, or None where no value fits."""
    readings = PROBES[answer.probe].readings
    return {reading.name: reading.value for reading in readings}.get(answer.reading)


def in_words(answer: Answer) -> str:
    """Returns an answer in one line, with its reading and the beginning of its reason."""
    reason = " ".join(answer.reason.split())[:SHOWN]
    details = "; ".join(part for part in (answer.reading, reason) if part)
    return f"{answer.probe} {answer.verdict} by {answer.framework}" + (details and f" ({details})")


def weigh_other(answer: Answer, core: hardware.NeuronCore, found: Findings) -> None:
    """Adds what an answer says about a constant, or about something that no field holds."""
    probe = PROBES[answer.probe]
    if answer.verdict != RIGHT:
        asked = probe.constant or probe.settles
        sentence = f"{in_words(answer)}. The question was {asked}; no field holds a verdict on it"
        found.notes.append(sentence)
        return
    if not probe.constant:
        found.agreed.append(f"{answer.probe} is right by {answer.framework}: {probe.settles}")
        return
    measured = answer.measured_ns
    if measured is None:
        found.notes.append(f"{answer.probe}: no times, so that {probe.constant} is not settled")
        return
    value = constant_for(probe, core, measured)
    why = f"{answer.probe}: {measured:,.0f} ns a repetition, modelled {answer.modelled_ns:,.0f}"
    if value is None:
        sentence = f"{why}; no value of {probe.constant} gives that time: see what bounds it"
        found.notes.append(sentence)
        return
    today = getattr(core, probe.constant)
    rounded = value if probe.values else float(f"{value:.{DIGITS}g}")
    is_near = abs(value - today) <= NEAR * abs(today)
    add(found, core, probe.constant, today, today if is_near else rounded, why)


def add(
    found: Findings, core: hardware.NeuronCore, name: str, today: Any, proposed: Any, why: str
) -> None:
    """Adds a change, or a field that stays."""
    if today == proposed:
        found.agreed.append(f"{name} stays {today}: {why}")
    else:
        found.changes.append(Proposal(core.name, name, today, proposed, why))


def in_source(value: Any) -> str:
    """Returns a value as hardware.py writes it, where verdicts are names of constants."""
    return value.upper() if isinstance(value, str) else repr(value)


def change_in_words(change: Proposal) -> str:
    """Returns a change in one line: the chip's field, its value today, the proposed one, and why.

    A chip that has the field from another chip, or from the class, gets it as a line of its own.
    """
    values = f"{in_source(change.today)} -> {change.field}={in_source(change.proposed)}"
    return f"{SOURCE}, {change.chip.upper()}: {change.field}={values},  # {change.why}"


def show(report: Report, console: Console) -> None:
    """Prints the findings of a report."""
    found = findings(report)
    environment = report.environment
    console.print(
        escape(f"Probes of {report.target} on {environment.date}, NKI {environment.nki}"),
        highlight=False,
    )
    for change in found.changes:
        line = escape(change_in_words(change))
        console.print(f"[green]{line}[/]", soft_wrap=True, highlight=False)
    for title, sentences in (("Agrees", found.agreed), ("To look at", found.notes)):
        for sentence in sentences:
            line = escape(f"{title}: {sentence}")
            console.print(line, soft_wrap=True, highlight=False)
    count = len(found.changes)
    console.print(f"{count} change(s) proposed; nothing was edited", highlight=False)

"use strict";
// The events that the page shows, and how it writes numbers. Times are modelled nanoseconds.
const data = JSON.parse(document.getElementById("data").textContent);
const events = data.events;
const count = events.start.length;
const word = (column, n) => data.words[events[column][n]];
const engineOf = (n) => data.tracks[events.track[n]].engine;
const isOnPath = (n) => events.path_ns[n] !== null;
const warningsOf = new Map();
for (const [n, text] of data.warnings) warningsOf.set(n, [...(warningsOf.get(n) || []), text]);
const loopEnds = data.loops.map((loop) => loop.end);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function trackName(track) {
  return data.cores > 1 ? `${track.name} · core ${track.core}` : track.name;
}

// The largest unit of which a time has at least one.
function unitOf(ns) {
  if (ns < 999.5) return [1, "ns"];
  if (ns < 999.995e3) return [1e3, "µs"];
  return ns < 999.99995e6 ? [1e6, "ms"] : [1e9, "s"];
}

// Writes a time with enough digits to tell neighbours apart: whole nanoseconds from 0.1 to 100 µs.
function timeText(ns) {
  const [size, unit] = unitOf(ns);
  const step = ns < 100 ? 0.1 : ns < 1e5 ? 1 : ns < 1e6 ? 10 : 100;
  const digits = Math.round(Math.log10(size / step));
  return `${(ns / size).toLocaleString("en", { maximumFractionDigits: digits })} ${unit}`;
}

// Writes a share in percent. Only a share of 0 shows as 0%.
function percentText(share) {
  if (share > 0 && share < 0.0005) return "<0.1%";
  return `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}%`;
}

function bytesText(bytes) {
  const power = bytes >= 1 ? Math.min(4, Math.floor(Math.log2(bytes) / 10)) : 0;
  return `${(bytes / 1024 ** power).toLocaleString("en", { maximumFractionDigits: 1 })} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

function label(n) {
  const where = [];
  if (data.launches.length > 1) where.push(`launch ${events.launch[n]}`);
  if (data.cores > 1) where.push(`core ${events.core[n]}`);
  return `#${events.number[n]} ${word("name", n)}${where.length ? ` (${where.join(", ")})` : ""}`;
}

// The parts of a DMA, each as [start, end] in nanoseconds: its latency, its wait in a queue for the
// DMA engines or for HBM, and the time in which its bytes move.
function partsOf(n) {
  const [start, end] = [events.start[n], events.end[n]];
  const moving = Math.max(start, end - events.moves_ns[n]);
  const queued = Math.min(start + events.latency_ns[n], moving);
  return [[start, queued], [queued, moving], [moving, end]];
}

// Lists everything that is known about an event, as names and values.
function facts(n) {
  const found = [["Engine", trackName(data.tracks[events.track[n]])]];
  if (word("instruction", n) !== `nisa.${word("name", n)}`) found.push(["Instruction", word("instruction", n)]);
  const duration = events.end[n] - events.start[n];
  found.push(["Time", `${timeText(events.start[n])} to ${timeText(events.end[n])}, for ${timeText(duration)}`]);
  if (events.times[n] !== 1) found.push(["Runs", `${events.times[n].toLocaleString("en")} times; the first run is shown`]);
  if (word("source", n)) found.push(["Source", `${word("source", n)}, ${word("function", n)}`]);
  for (const [at, operand] of word("operands", n).split(", ").entries()) {
    if (operand) found.push([at ? "" : "Operands", operand]);
  }
  if (events.bytes[n]) {
    const rate = events.moves_ns[n] ? `, ${(events.bytes[n] / events.moves_ns[n]).toFixed(1)} GB/s for ${timeText(events.moves_ns[n])}` : "";
    found.push(["Moves", `${bytesText(events.bytes[n])} in ${events.descriptors[n].toLocaleString("en")} descriptors${rate}`]);
  }
  if (engineOf(n) === "dma") {
    const [latency, queue, moves] = partsOf(n).map(([from, to]) => to - from);
    const waits = queue > 0.5 ? `${timeText(queue)} in a queue` : "no wait in a queue";
    found.push(["Of which", `${timeText(latency)} latency, ${waits}, ${timeText(moves)} for its bytes`]);
  }
  if (events.descriptors_end[n] !== null) {
    found.push(["Descriptors", `written by GpSimdE in ${timeText(events.descriptors_end[n] - events.start[n])}`]);
  }
  if (events.macs[n]) found.push(["Multiply-adds", events.macs[n].toLocaleString("en")]);
  const other = events.waited_for[n];
  found.push(["Waited for", other < 0 ? "nothing" : `${word("wait", n)}: ${label(other)}`]);
  if (isOnPath(n)) {
    const share = percentText(events.path_ns[n] / data.total_ns);
    found.push(["Critical path", `${timeText(events.path_ns[n])}, ${share} of the total`]);
  }
  for (const text of warningsOf.get(n) || []) found.push(["Warning", text]);
  return found;
}

// Makes an element. Its children are elements or texts; a text is never read as HTML.
function element(name, attributes, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

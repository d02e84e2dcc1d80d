"use strict";
// Draws the timeline of tracks and, below it, numbers over time. All charts share one time axis.
const GUTTER = 128; // CSS pixels for names on the left
const LEAST_SPAN = 20; // the shortest span that the view can show, in nanoseconds
const charts = [];
const view = { from: 0, to: data.total_ns };
const viewListeners = [];
let selected = -1;

// The rows from top to bottom: launches and loops if there are any, then the tracks with their lanes.
const rows = [];
const lanes = []; // for each track, for each of its lanes: its events by start
function layOut() {
  let top = 4;
  const add = (row, height) => {
    rows.push({ ...row, top, height });
    top += height + 5;
  };
  if (data.launches.length > 1) add({ name: "Launches", spans: data.launches }, 16);
  for (const loop of [...new Set(data.loops.map((one) => one.core))]) {
    const name = data.cores > 1 ? `Loops · core ${loop}` : "Loops";
    add({ name, spans: data.loops.filter((one) => one.core === loop) }, 16);
  }
  data.tracks.forEach((track, number) => {
    const each = Math.max(3, Math.min(20, Math.floor(110 / track.lanes)));
    add({ name: trackName(track), track: number, each }, each * track.lanes);
    lanes.push(Array.from({ length: track.lanes }, () => []));
  });
  const gpsimd = (core) => data.tracks.findIndex((track) => track.engine === "gpsimd" && track.core === core);
  for (let n = 0; n < count; n++) {
    lanes[events.track[n]][events.lane[n]].push(n);
    // A DMA whose descriptors GpSimdE writes is drawn on both rows. GpSimdE has one lane, as it does
    // one thing at a time.
    if (events.descriptors_end[n] !== null) lanes[gpsimd(events.core[n])][0].push(n);
  }
  for (const lane of lanes.flat()) lane.sort((a, b) => events.start[a] - events.start[b]);
  return top;
}

// The end of an event on a track. On GpSimdE's track a DMA ends when its descriptors are written.
const endOn = (track, n) => (events.track[n] === track ? events.end[n] : events.descriptors_end[n]);

// Finds the first event of a track's lane that ends after a time.
function firstAfter(track, lane, time) {
  let low = 0;
  let high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (endOn(track, lane[middle]) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function setView(from, to) {
  const span = Math.min(data.total_ns, Math.max(LEAST_SPAN, to - from));
  const middle = (from + to) / 2;
  view.from = Math.max(0, Math.min(data.total_ns - span, middle - span / 2));
  view.to = view.from + span;
  for (const chart of charts) chart.setScale("x", { min: view.from, max: view.to });
  for (const listen of viewListeners) listen();
}

// Zooms so that the time at ``part`` (0 to 1) of the width stays where it is.
function zoom(factor, part = 0.5) {
  const span = Math.max(LEAST_SPAN, Math.min(data.total_ns, (view.to - view.from) * factor));
  const time = view.from + part * (view.to - view.from);
  const from = Math.max(0, Math.min(data.total_ns - span, time - part * span));
  setView(from, from + span);
}

function move(part) {
  const span = view.to - view.from;
  const from = Math.max(0, Math.min(data.total_ns - span, view.from + part * span));
  setView(from, from + span);
}

// The texts of an axis's ticks: all have the same unit and as many digits as they need.
function axisTexts(_, values) {
  const most = Math.max(...values.map(Math.abs), 0);
  const [scale, unit] = unitOf(most);
  const isRound = (value) => Math.abs(value - Math.round(value)) < 1e-6;
  let digits = 0;
  while (digits < 6 && !values.every((value) => isRound((value / scale) * 10 ** digits))) digits++;
  return values.map((value) => `${(value / scale).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`);
}

function timeAxis(isShown) {
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 } };
  return { ...axis, font: "11px system-ui, sans-serif", space: 90, size: isShown ? 26 : 6, gap: 2, values: isShown ? axisTexts : (_, values) => values.map(() => "") };
}

function options(height, isShown, series, axis, hooks) {
  return {
    width: document.getElementById("charts").clientWidth,
    height,
    legend: { show: false },
    padding: [2, 14, 0, 0],
    scales: { x: { time: false, range: () => [view.from, view.to] }, y: axis.scale },
    axes: [timeAxis(isShown), axis.axis],
    series: [{}, ...series],
    cursor: {
      y: false,
      points: { show: false },
      sync: { key: "time" },
      drag: { x: true, y: false, setScale: false },
      bind: { dblclick: () => () => setView(0, data.total_ns) },
    },
    hooks: {
      ...hooks,
      setSelect: [
        (chart) => {
          const { left, width } = chart.select;
          if (width < 3) return;
          const [from, to] = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")];
          chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          setView(from, to);
        },
      ],
    },
  };
}

function drawTracks(chart) {
  const context = chart.ctx;
  const ratio = devicePixelRatio;
  const box = chart.bbox;
  context.save();
  drawNames(context, box, ratio);
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  const x = (time) => chart.valToPos(time, "x", true);
  for (const row of rows) {
    if (row.spans) drawSpans(context, box, row, x, ratio);
    else drawTrack(context, box, row, x, ratio);
  }
  drawPath(context, box, x, ratio);
  context.restore();
}

function drawNames(context, box, ratio) {
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  for (const row of rows) {
    const top = box.top + row.top * ratio;
    context.fillStyle = colour("text");
    context.fillText(row.name, box.left - 10 * ratio, top + (row.height * ratio) / 2, (GUTTER - 14) * ratio);
    context.fillStyle = colour("page");
    context.fillRect(box.left, top, box.width, row.height * ratio);
  }
}

function drawSpans(context, box, row, x, ratio) {
  const top = box.top + row.top * ratio;
  for (const span of row.spans) {
    const [left, right] = [x(span.start), x(span.end)];
    context.fillStyle = colour("line");
    context.fillRect(left, top, Math.max(ratio, right - left - ratio), row.height * ratio);
    drawText(context, span.name, left, right, top, row.height * ratio, colour("text"), ratio);
  }
}

function drawTrack(context, box, row, x, ratio) {
  const height = row.each * ratio - (row.each > 5 ? ratio : 0);
  const texts = [];
  lanes[row.track].forEach((lane, number) => {
    const top = box.top + (row.top + number * row.each) * ratio;
    let last = -Infinity; // the pixel up to which something is drawn
    let lastIsStrong = false;
    for (let at = firstAfter(row.track, lane, view.from); at < lane.length && events.start[lane[at]] < view.to; at++) {
      const n = lane[at];
      const isStrong = isOnPath(n) && events.track[n] === row.track;
      const [left, right] = [x(events.start[n]), x(endOn(row.track, n))];
      if (right - last < 0.5 && (lastIsStrong || !isStrong)) continue;
      const width = Math.max(ratio / 2, right - left - (right - left > 4 * ratio ? ratio : 0));
      drawEvent(context, row.track, n, [left, top, width, height], x, ratio);
      if (n === selected) {
        context.strokeStyle = colour("text");
        context.lineWidth = 2 * ratio;
        context.strokeRect(left, top, Math.max(width, 3 * ratio), height);
      }
      if (row.each >= 12 && right - left > 30 * ratio) texts.push([n, left, right, top]);
      last = right;
      lastIsStrong = isStrong;
    }
  });
  for (const [n, left, right, top] of texts) {
    const isOwn = events.track[n] === row.track;
    const style = isOnPath(n) && engineOf(n) !== "dma" ? colour("panel") : colour("text");
    drawText(context, isOwn ? word("name", n) : "DMA", left, right, top, height, style, ratio);
  }
}

// Draws the box of an event on a track, in fainter colours off the critical path. The latency of a
// DMA is a thin line, and its wait in a queue is hatched. On GpSimdE's track its descriptors are pale.
function drawEvent(context, track, n, [left, top, width, height], x, ratio) {
  const isOwn = events.track[n] === track;
  const isTransfer = isOwn && engineOf(n) === "dma" && width > 3;
  const alpha = isOnPath(n) ? 1 : 0.42;
  const style = colour(data.tracks[track].engine);
  const right = left + width;
  const fill = (from, to, paint, part = 1) => {
    context.fillStyle = paint;
    if (to > from) context.fillRect(from, top + ((1 - part) / 2) * height, to - from, part * height);
  };
  context.globalAlpha = isOwn ? alpha : 0.45 * alpha;
  if (isTransfer) {
    const [queued, moving] = partsOf(n).map(([time]) => x(time)).slice(1);
    fill(left, Math.min(queued, right), style, 0.3);
    fill(queued, Math.min(moving, right), hatched(context, style, ratio));
    fill(moving, Math.max(moving + ratio / 2, right), style);
  } else {
    fill(left, right, style);
  }
  context.globalAlpha = 1;
  if (isOwn && warningsOf.has(n)) {
    context.fillStyle = colour("heat");
    context.fillRect(left, top, Math.max(width, 2 * ratio), 3 * ratio);
  }
}

const hatches = new Map();

// A pattern of lines, which no text in the box hides.
function hatched(context, style, ratio) {
  const key = `${style} ${ratio}`;
  if (!hatches.has(key)) {
    const size = Math.round(6 * ratio);
    const tile = element("canvas", { width: size, height: size });
    const lines = tile.getContext("2d");
    lines.strokeStyle = style;
    lines.lineWidth = 1.2 * ratio;
    for (const shift of [-size, 0, size]) {
      lines.moveTo(shift - 1, size + 1);
      lines.lineTo(shift + size + 1, -1);
    }
    lines.stroke();
    hatches.set(key, context.createPattern(tile, "repeat"));
  }
  return hatches.get(key);
}

// Writes a name in the visible part of its box, if the name has room there.
function drawText(context, text, left, right, top, height, style, ratio) {
  const from = Math.max(left, context.canvas.uplotLeft || 0) + 4 * ratio;
  const room = right - from - 4 * ratio;
  context.font = `${11 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  let shown = text;
  if (context.measureText(shown).width > room) {
    const fits = Math.floor((shown.length * room) / context.measureText(shown).width) - 1;
    if (fits < 3) return;
    shown = `${shown.slice(0, fits)}…`;
  }
  context.fillStyle = style;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(shown, from, top + height / 2);
}

// Draws lines from each event of the critical path to the next, unless too many are in view.
function drawPath(context, box, x, ratio) {
  const seen = [];
  for (let at = 0; at + 1 < data.path.length; at++) {
    const [a, b] = [data.path[at], data.path[at + 1]];
    if (events.start[b] < view.from || events.start[a] > view.to) continue;
    if (events.launch[a] === events.launch[b]) seen.push([a, b]);
    if (seen.length > 400) return;
  }
  context.strokeStyle = colour("heat");
  context.lineWidth = 1.3 * ratio;
  context.beginPath();
  for (const [a, b] of seen) {
    if (events.track[a] === events.track[b] && events.lane[a] === events.lane[b]) continue;
    const time = Math.min(events.end[a], events.start[b]);
    context.moveTo(x(time), box.top + middleOf(a) * ratio);
    context.lineTo(x(events.start[b]), box.top + middleOf(b) * ratio);
  }
  context.stroke();
}

const rowOfTrack = [];
function middleOf(n) {
  const row = rowOfTrack[events.track[n]];
  return row.top + (events.lane[n] + 0.5) * row.each;
}

// Finds the event under the mouse, or -1. The mouse may be 3 pixels beside a narrow event.
function eventAt(chart, left, top) {
  const row = rows.find((one) => top >= one.top && top < one.top + one.height);
  if (!row || row.spans) return -1;
  const lane = lanes[row.track][Math.min(lanes[row.track].length - 1, Math.floor((top - row.top) / row.each))];
  const [from, to] = [chart.posToVal(left - 3, "x"), chart.posToVal(left + 3, "x")];
  const time = chart.posToVal(left, "x");
  let best = -1;
  let distance = Infinity;
  for (let at = firstAfter(row.track, lane, from); at < lane.length && events.start[lane[at]] <= to; at++) {
    const away = Math.max(events.start[lane[at]] - time, time - endOn(row.track, lane[at]), 0);
    if (away < distance) [best, distance] = [lane[at], away];
  }
  return best;
}

function addTracks(place) {
  const height = layOut();
  for (const row of rows) if (!row.spans) rowOfTrack[row.track] = row;
  const axis = { scale: { range: () => [0, 1] }, axis: { size: GUTTER, values: () => [], ticks: { show: false }, grid: { show: false } } };
  const series = [{ paths: () => null, points: { show: false } }];
  const chart = new uPlot(options(height + 34, true, series, axis, { draw: [drawTracks] }), [[0, data.total_ns], [0, 0]], place);
  chart.ctx.canvas.uplotLeft = chart.bbox.left;
  charts.push(chart);
  return chart;
}

function addCounter(place, counter) {
  const ofAll = counter.values.flat();
  const most = ofAll.reduce((a, b) => Math.max(a, b), 0);
  const limit = counter.most / counter.scale;
  const peak = most / counter.scale;
  const share = counter.most ? `, ${percentText(most / counter.most)}` : "";
  const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });
  const text = `: at most ${number(peak)} of ${number(limit)} ${counter.unit} ${counter.of}${share}`;
  place.append(element("p", { class: "chart-name" }, element("strong", {}, counter.name), text));
  const top = peak > limit / 4 ? Math.max(limit, peak) : peak * 1.3 || 1;
  const quiet = colour("quiet");
  const axis = {
    scale: { range: () => [0, top * 1.04] },
    axis: { size: GUTTER, stroke: quiet, font: "11px system-ui, sans-serif", space: 22, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false },
      ...(counter.unit === "banks" ? { incrs: [1, 2, 4] } : {}),
      values: (_, values) => values.map((value) => `${number(value)} ${value === 1 ? counter.one : counter.unit}`) },
  };
  const colours = [colour("accent"), colour("dma")];
  const series = counter.values.map((_, core) => ({
    stroke: colours[core], width: 1.4, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }),
    fill: counter.values.length === 1 ? `${colours[core]}33` : undefined,
  }));
  const limitLine = (chart) => {
    if (limit > top * 1.04) return;
    const y = chart.valToPos(limit, "y", true);
    chart.ctx.save();
    chart.ctx.strokeStyle = colour("heat");
    chart.ctx.setLineDash([6, 4]);
    chart.ctx.beginPath();
    chart.ctx.moveTo(chart.bbox.left, y);
    chart.ctx.lineTo(chart.bbox.left + chart.bbox.width, y);
    chart.ctx.stroke();
    chart.ctx.restore();
  };
  const last = counter.values.map((values) => values.at(-1) ?? 0);
  const times = [0, ...counter.times, data.total_ns];
  const lines = counter.values.map((values, core) => [0, ...values.map((value) => value / counter.scale), last[core] / counter.scale]);
  if (counter.times[0] === 0) { times.shift(); lines.forEach((line) => line.shift()); }
  charts.push(new uPlot(options(104, false, series, axis, { draw: [limitLine] }), [times, ...lines], place));
}

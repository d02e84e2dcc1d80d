"use strict";
// The charts of the page: lines through powers of two, hollow markers at other lengths.
const charts = JSON.parse(document.getElementById("data").textContent);
const STYLES = {
  measured: { dash: [], width: 2.5, size: 8 },
  host: { dash: [], width: 2.5, size: 8 },
  modelled: { dash: [9, 5], width: 1.8, size: 5 },
  launched: { dash: [9, 4, 2, 4], width: 1.8, size: 5 },
  predicted: { dash: [5, 4], width: 1.3, size: 4 },
  floor: { dash: [2, 4], width: 1.5, size: 0 },
  seed: { dash: [2, 3], width: 1.2, size: 6 },
};

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const digits = (value) => (value >= 0.01 && value < 1e6 ? Number(value.toPrecision(3)).toLocaleString("en") : value.toExponential(1));
const POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const raised = (power) => (power < 0 ? "⁻" : "") + [...String(Math.abs(power))].map((digit) => POWERS[digit]).join("");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// N as an axis has it: 64, 1K, 1M.
function lengthText(n) {
  if (n >= 2 ** 20) return `${n / 2 ** 20}M`;
  return n >= 1024 ? `${n / 1024}K` : String(n);
}

function swatch(line) {
  const { dash, width } = STYLES[line.kind];
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 34 12");
  picture.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS(space, "line");
  const attributes = { x1: 0, x2: 34, y1: 6, y2: 6, "stroke-width": width, "stroke-dasharray": dash.join(" ") };
  for (const [key, value] of Object.entries(attributes)) stroke.setAttribute(key, value);
  stroke.style.stroke = `var(--${line.colour})`;
  picture.append(stroke);
  return picture;
}

// Two series a line: one joined, and one of markers at lengths that are no power of two.
function seriesOf(line) {
  const { dash, width, size } = STYLES[line.kind];
  const stroke = colour(line.colour);
  const shared = { stroke, show: line.shown, spanGaps: true };
  return [
    { ...shared, label: line.label, dash, width, points: { show: size > 0, size, fill: line.kind === "seed" ? colour("panel") : stroke } },
    { ...shared, width: 1.2, paths: () => null, points: { show: size > 0, size: size + 1, fill: colour("panel"), stroke } },
  ];
}

function axis(more) {
  const lines = { stroke: colour("line"), width: 1 };
  return { stroke: colour("quiet"), grid: lines, ticks: lines, font: "12px system-ui, sans-serif", ...more };
}

// The axis of y names powers of ten; where few are in view, it names 2 and 5 times them, too.
function yTexts(chart, values) {
  const { min, max } = chart.scales.y;
  const factors = max / min > 300 ? [1] : max / min > 30 ? [1, 3] : [1, 2, 5];
  return values.map((value) => {
    const power = Math.floor(Math.log10(value) + 1e-9);
    const factor = Math.round(value / 10 ** power);
    if (!factors.includes(factor)) return null;
    if (power >= -1 && power < 5) return Number(value.toPrecision(2)).toLocaleString("en");
    return factor === 1 ? `10${raised(power)}` : `${factor}·10${raised(power)}`;
  });
}

function options(data, width) {
  const step = Math.ceil(Math.log2(data.lengths.at(-1) / data.lengths[0]) / (width / 52));
  const isNamed = (n) => Number.isInteger(Math.log2(n)) && Math.log2(n) % step === 0;
  return {
    width,
    height: Math.round(Math.max(300, Math.min(460, width * 0.55))),
    legend: { show: false },
    padding: [8, 12, 0, 0],
    cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
    scales: {
      x: { time: false, distr: 3, log: 2, range: (chart, min, max) => [min / 1.2, max * 1.2] },
      y: { distr: 3, log: 10, range: (chart, min, max) => [min / 1.5, max * 1.5] },
    },
    axes: [
      axis({ size: 46, label: "N", labelSize: 18, labelFont: "12px system-ui, sans-serif", splits: () => data.lengths.filter((n) => Number.isInteger(Math.log2(n))), values: (chart, values) => values.map((n) => (isNamed(n) ? lengthText(n) : "")) }),
      axis({ size: 58, label: data.quantity, labelSize: 18, labelFont: "12px system-ui, sans-serif", filter: (chart, values) => values, values: yTexts }),
    ],
    series: [{}, ...data.lines.flatMap(seriesOf)],
    hooks: { setCursor: [(chart) => showValues(chart, data)] },
  };
}

// The values at the length under the cursor, beside the names of the lines.
function showValues(chart, data) {
  const { idx } = chart.cursor;
  data.note.textContent = idx == null ? "Point at the chart to read its values." : `N = ${data.lengths[idx].toLocaleString("en")}`;
  data.lines.forEach((line, n) => {
    const value = idx == null ? null : line.values[idx] ?? line.others[idx];
    data.outputs[n].textContent = value == null ? "" : digits(value);
  });
}

function build(data) {
  data.chart?.destroy();
  const columns = [data.lengths, ...data.lines.flatMap((line) => [line.values, line.others])];
  data.chart = new uPlot(options(data, data.place.clientWidth), columns, data.place);
  showValues(data.chart, data);
}

function addNames(data) {
  const section = data.place.parentElement;
  const [shown, others] = section.querySelectorAll(".lines");
  const more = section.querySelector(".more");
  const hidden = data.lines.filter((line) => !line.shown).length;
  more.hidden = hidden === 0;
  more.querySelector("summary").textContent = `More lines (${hidden})`;
  data.outputs = data.lines.map((line, n) => {
    const box = element("input", { type: "checkbox" });
    box.checked = line.shown;
    box.addEventListener("change", () => {
      line.shown = box.checked;
      data.chart.batch(() => {
        for (const series of [2 * n + 1, 2 * n + 2]) data.chart.setSeries(series, { show: line.shown });
      });
    });
    const output = element("output");
    (line.shown ? shown : others).append(element("label", {}, box, swatch(line), element("span", {}, line.label), output));
    return output;
  });
}

for (const data of charts) {
  data.place = document.querySelector(`[data-chart="${data.name}"]`);
  data.note = data.place.parentElement.querySelector(".cursor");
  addNames(data);
  build(data);
}
const rebuild = () => charts.forEach(build);
addEventListener("resize", rebuild);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", rebuild);

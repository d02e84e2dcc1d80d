"use strict";
// The table of instructions. It is sorted and filtered here, and shows one page of rows at a time.
const PAGE = 100;
const table = { order: [], first: 0, sort: "start", direction: 1, texts: null };

const duration = (n) => events.end[n] - events.start[n];
const COLUMNS = [
  { key: "number", name: "Number", value: (n) => events.number[n], text: (n) => String(events.number[n]), kind: "number" },
  { key: "launch", name: "Launch", value: (n) => events.launch[n], text: (n) => String(events.launch[n]), kind: "number", hidden: data.launches.length < 2 },
  { key: "core", name: "Core", value: (n) => events.core[n], text: (n) => String(events.core[n]), kind: "number", hidden: data.cores < 2 },
  { key: "engine", name: "Engine or queue", value: (n) => data.tracks[events.track[n]].name, text: (n) => data.tracks[events.track[n]].name, kind: "nowrap" },
  { key: "name", name: "Instruction", value: (n) => word("name", n), text: (n) => word("name", n) + (events.times[n] > 1 ? ` ×${events.times[n].toLocaleString("en")}` : ""), kind: "nowrap" },
  { key: "start", name: "Start", value: (n) => events.start[n], text: (n) => timeText(events.start[n]), kind: "number" },
  { key: "duration", name: "Duration", value: duration, text: (n) => timeText(duration(n)), kind: "number" },
  { key: "path", name: "On the path", value: (n) => events.path_ns[n] ?? -1, text: (n) => (isOnPath(n) ? timeText(events.path_ns[n]) : ""), kind: "number" },
  { key: "source", name: "Source", value: (n) => [word("file", n), Number(word("source", n).split(":").pop())], text: (n) => word("source", n), kind: "nowrap" },
  { key: "operands", name: "Operands", value: (n) => word("operands", n), text: (n) => word("operands", n), kind: "" },
  { key: "bytes", name: "Moves", value: (n) => events.bytes[n], text: (n) => (events.bytes[n] ? bytesText(events.bytes[n]) : ""), kind: "number" },
  { key: "waited", name: "Waited for", value: (n) => word("wait", n), text: (n) => (events.waited_for[n] < 0 ? "" : `${word("wait", n)}: ${label(events.waited_for[n])}`), kind: "" },
].filter((column) => !column.hidden);

function compare(a, b) {
  if (Array.isArray(a)) return compare(a[0], b[0]) || compare(a[1], b[1]);
  return a < b ? -1 : a > b ? 1 : 0;
}

function textOf(n) {
  table.texts ??= new Array(count);
  table.texts[n] ??= COLUMNS.map((column) => column.text(n)).join(" ").toLowerCase();
  return table.texts[n];
}

function filterRows() {
  const words = document.getElementById("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const onlyPath = document.getElementById("only-path").checked;
  const onlySpan = document.getElementById("only-span").checked;
  const column = COLUMNS.find((one) => one.key === table.sort);
  table.order = [];
  for (let n = 0; n < count; n++) {
    if (onlyPath && !isOnPath(n)) continue;
    if (onlySpan && (events.end[n] < view.from || events.start[n] > view.to)) continue;
    if (words.every((one) => textOf(n).includes(one))) table.order.push(n);
  }
  const values = new Map(table.order.map((n) => [n, column.value(n)]));
  table.order.sort((a, b) => table.direction * compare(values.get(a), values.get(b)) || a - b);
  table.first = 0;
  showRows();
}

function showRows() {
  const shown = table.order.slice(table.first, table.first + PAGE);
  const last = table.first + shown.length;
  const number = (value) => value.toLocaleString("en");
  document.getElementById("rows").textContent = shown.length
    ? `${number(table.first + 1)} to ${number(last)} of ${number(table.order.length)}` : "no instruction";
  document.getElementById("previous").disabled = table.first === 0;
  document.getElementById("next").disabled = last >= table.order.length;
  document.querySelector("#table tbody").replaceChildren(...shown.map(rowOf));
}

function rowOf(n) {
  const row = element("tr", { "data-event": n, tabindex: "0" });
  if (isOnPath(n)) row.classList.add("path");
  if (n === selected) row.classList.add("selected");
  for (const column of COLUMNS) {
    const cell = element("td", { class: column.kind });
    if (column.key === "engine") cell.append(element("span", { class: "dot", style: `background: var(--${engineOf(n)})` }));
    cell.append(column.text(n));
    row.append(cell);
  }
  return row;
}

function sortBy(key) {
  table.direction = table.sort === key ? -table.direction : 1;
  table.sort = key;
  for (const head of document.querySelectorAll("#table th")) {
    if (head.dataset.key === key) head.setAttribute("aria-sort", table.direction > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  filterRows();
}

// Turns to the page of rows that has an event, if no filter hides the event.
function turnTo(n) {
  const at = table.order.indexOf(n);
  if (at >= 0) table.first = PAGE * Math.floor(at / PAGE);
  showRows();
}

function addTable() {
  const heads = COLUMNS.map((column) => {
    const button = element("button", { type: "button" }, column.name);
    button.addEventListener("click", () => sortBy(column.key));
    return element("th", { scope: "col", "data-key": column.key, class: column.kind }, button);
  });
  document.querySelector("#table thead").append(element("tr", {}, ...heads));
  heads.find((head) => head.dataset.key === table.sort).setAttribute("aria-sort", "ascending");
  for (const name of ["words", "only-path", "only-span"]) document.getElementById(name).addEventListener("input", filterRows);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  const turn = (by) => () => { table.first += by; showRows(); };
  document.getElementById("previous").addEventListener("click", turn(-PAGE));
  document.getElementById("next").addEventListener("click", turn(PAGE));
  filterRows();
}

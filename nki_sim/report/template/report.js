"use strict";
// Starts the page: it builds the charts and the table and connects them. The address keeps the span
// that is shown.
const place = document.getElementById("charts");
const tip = document.getElementById("tip");
const details = document.getElementById("details");
let tracks;

function build() {
  place.replaceChildren();
  for (const chart of charts.splice(0)) chart.destroy();
  rows.length = lanes.length = 0;
  tracks = addTracks(place);
  for (const counter of data.counters) addCounter(place, counter);
  tracks.over.addEventListener("mousemove", showTip);
  tracks.over.addEventListener("mouseleave", () => { tip.hidden = true; });
  tracks.over.addEventListener("click", (event) => {
    const n = eventAt(tracks, event.offsetX, event.offsetY);
    if (n >= 0) select(n);
  });
  tracks.over.addEventListener("wheel", onWheel, { passive: false });
}

function list(n) {
  const pairs = facts(n).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return element("dl", { class: "pairs" }, ...pairs);
}

function showTip(mouse) {
  const n = eventAt(tracks, mouse.offsetX, mouse.offsetY);
  tip.hidden = n < 0;
  if (n < 0) return;
  tip.replaceChildren(element("strong", {}, label(n)), list(n));
  const { width, height } = tip.getBoundingClientRect();
  const left = mouse.clientX + 16 + width > innerWidth ? mouse.clientX - width - 12 : mouse.clientX + 16;
  const top = Math.min(mouse.clientY + 14, innerHeight - height - 8);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function onWheel(event) {
  event.preventDefault();
  const pixels = event.deltaMode === 1 ? 30 : 1;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
    move(((event.deltaX || event.deltaY) * pixels) / tracks.over.clientWidth);
  } else {
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * pixels * 0.002))), event.offsetX / tracks.over.clientWidth);
  }
}

function select(n) {
  selected = n;
  const found = list(n);
  const other = events.waited_for[n];
  if (other >= 0) {
    const button = element("button", { type: "button" }, `show ${label(other)}`);
    button.addEventListener("click", () => showEvent(other));
    const index = facts(n).findIndex(([name]) => name === "Waited for");
    found.querySelectorAll("dd")[index].append(" ", button);
  }
  details.replaceChildren(element("h3", {}, label(n)), found);
  tracks.redraw(false);
  turnTo(n);
}

// Selects an event and moves the view to it. The view zooms in if the event is too narrow to see.
function showEvent(n) {
  const duration = events.end[n] - events.start[n];
  const middle = (events.start[n] + events.end[n]) / 2;
  const span = Math.min(view.to - view.from, Math.max(LEAST_SPAN, duration * 40));
  const isSeen = events.start[n] >= view.from && events.end[n] <= view.to && span === view.to - view.from;
  if (!isSeen) setView(middle - span / 2, middle + span / 2);
  select(n);
}

function alongPath(by) {
  const at = data.path.indexOf(selected);
  const next = at < 0 ? (by > 0 ? 0 : data.path.length - 1) : at + by;
  if (next >= 0 && next < data.path.length) showEvent(data.path[next]);
}

const ACTIONS = {
  in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25),
  all: () => setView(0, data.total_ns),
};
const KEYS = {
  "+": ACTIONS.in, "=": ACTIONS.in, "-": ACTIONS.out, ArrowLeft: ACTIONS.left, ArrowRight: ACTIONS.right,
  0: ACTIONS.all, n: () => alongPath(1), p: () => alongPath(-1),
};

function onView() {
  const text = `${timeText(view.from)} to ${timeText(view.to)}: ${timeText(view.to - view.from)}`;
  document.getElementById("span").textContent = text;
  clearTimeout(onView.timer);
  onView.timer = setTimeout(() => {
    const isAll = view.to - view.from >= data.total_ns;
    const hash = isAll ? "#timeline" : `#from=${view.from.toFixed(1)}&to=${view.to.toFixed(1)}`;
    if (!isAll || location.hash.startsWith("#from")) history.replaceState(null, "", hash);
    if (document.getElementById("only-span").checked) filterRows();
  }, 200);
}

// Reads an address such as "#from=1000&to=2000", which shows that span in nanoseconds.
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const [from, to] = [Number(asked.get("from")), Number(asked.get("to"))];
  if (asked.has("from") && to > from) {
    setView(from, to);
    document.getElementById("timeline").scrollIntoView();
  }
}

build();
addTable();
viewListeners.push(onView);
onView();
readAddress();
addEventListener("hashchange", readAddress);
addEventListener("resize", () => { build(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
place.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});
for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", ACTIONS[button.dataset.zoom]);
const chosen = (event) => event.target.closest("tr[data-event]");
document.querySelector("#table tbody").addEventListener("click", (event) => {
  if (chosen(event)) showEvent(Number(chosen(event).dataset.event));
});
document.querySelector("#table tbody").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && chosen(event)) showEvent(Number(chosen(event).dataset.event));
});

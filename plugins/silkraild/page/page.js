// Requests /api/v1/node every two seconds and shows the result.

import { devices } from "./devices.js";
import { h, show } from "./dom.js";
import { History } from "./history.js";
import { pods } from "./pods.js";
import { problems } from "./problems.js";
import { opener } from "./tables.js";
import { duration, number, plural, rate } from "./text.js";

const INTERVAL = 2000; // milliseconds
const REQUEST_TIMEOUT = 15000; // milliseconds
const OLD = 10; // seconds
const PROBLEMS = 12; // shown when collapsed

const at = (id) => document.getElementById(id);
const history = new History();
let node = null;
/** When the snapshot was taken, by the monotonic clock of this browser. */
let taken = 0;
let failingSince = null;
let failure = "";
let timer = 0;
let isUpdating = false;

/** The state of the view: the filter text, and the rows that the user has opened or closed. */
const view = {
  filter: "",
  byHand: new Map(),
  has: (texts) => !view.filter || texts.some((text) => text && text.toLowerCase().includes(view.filter)),
  isOpen: (key, usual = false) => view.byHand.get(key) ?? usual,
  toggle(key, usual = false) {
    view.byHand.set(key, !view.isOpen(key, usual));
    draw();
  },
};

async function update() {
  if (isUpdating) return;
  isUpdating = true;
  clearTimeout(timer);
  try {
    const response = await fetch("/api/v1/node", { signal: AbortSignal.timeout(REQUEST_TIMEOUT) });
    if (!response.ok) throw new Error((await response.text()).trim());
    const snapshot = await response.json();
    // The node's clock may differ from this machine's: its own Date header shows how old the snapshot was.
    const date = Date.parse(response.headers.get("date")) / 1000 || snapshot.time;
    taken = performance.now() - Math.max(0, date - snapshot.time) * 1000;
    node = snapshot;
    history.enter(node);
    failingSince = null;
  } catch (error) {
    failingSince ??= performance.now();
    failure = error.name === "TimeoutError" || error instanceof TypeError ? "no response" : error.message;
  }
  isUpdating = false;
  draw();
  if (!document.hidden) timer = setTimeout(update, INTERVAL);
}

function draw() {
  drawStatus();
  if (!node) return;
  document.title = `${node.node} · silkraild`;
  set("node", node.node);
  const found = problems(node, history);
  set("about", [node.mode ? `${node.mode} RDMA mode` : null, `silkraild ${node.version}`].filter(Boolean).join(" · "));
  show(at("tiles"), tiles(found));
  show(at("problems"), problemList(found));
  show(at("devices"), devices(node, history, view));
  show(at("pods"), pods(node, history, view));
}

/** Shows the status, which screen readers announce when it changes, and the age, which they do not announce. */
function drawStatus() {
  const age = node ? (performance.now() - taken) / 1000 : 0;
  let [state, text] = ["wait", "Connecting to silkraild…"];
  if (document.hidden) [state, text] = ["wait", "Paused while this page is hidden"];
  else if (failingSince != null) [state, text] = ["bad", `silkraild does not respond: ${failure}`];
  else if (node && age > OLD) [state, text] = ["bad", "silkraild serves an old snapshot: a collection hangs"];
  else if (node) [state, text] = ["good", "Live"];
  set("status", text);
  at("status").dataset.state = state;
  set("age", node ? `read ${duration(age)} ago` : "");
  document.body.classList.toggle("stale", state === "bad" && node != null);
}

function set(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

function tiles(found) {
  const ports = node.devices.flatMap((device) => device.ports);
  const active = ports.filter((port) => port.state === "active").length;
  const vfs = node.devices.filter((device) => device.isVf).length;
  const sum = (of) => {
    const known = [...history.ports.values()].map((track) => track.latest?.[of]).filter((value) => value != null);
    return known.length ? known.reduce((a, b) => a + b) : null;
  };
  return [
    tile("Problems", number(found.length), found.length ? "see below" : "none detected", found.length ? "bad" : "good"),
    tile("Devices", number(node.devices.length), vfs ? `${plural(vfs, "VF among them", "VFs among them")}` : "no VFs"),
    tile("Ports active", number(active), `of ${number(ports.length)}`),
    tile("Pods", number(node.pods.length), "with RDMA"),
    tile("Receive", rate(sum("receive")), "all devices"),
    tile("Transmit", rate(sum("transmit")), "all devices"),
  ];
}

const tile = (name, value, more, kind = "") =>
  h("div", { class: `tile ${kind}` }, h("p", { class: "kicker" }, name), h("p", { class: "value" }, value), h("small", {}, more));

function problemList(found) {
  if (found.length === 0) return h("p", { class: "nothing" }, "No problems detected.");
  const all = view.isOpen("problems");
  const more = found.length - PROBLEMS;
  return [
    h("ul", { class: "problems" }, found.slice(0, all ? Infinity : PROBLEMS).map(({ what, why }) =>
      h("li", {}, h("strong", {}, what), h("span", {}, why)))),
    more > 0 ? opener(all, () => view.toggle("problems"), all ? "fewer" : `${number(more)} more`) : null,
  ];
}

at("filter").addEventListener("input", (event) => {
  view.filter = event.target.value.trim().toLowerCase();
  // The URL contains the filter, so that it can be shared.
  const hash = view.filter ? `#${encodeURIComponent(event.target.value.trim())}` : location.pathname;
  window.history.replaceState(null, "", hash);
  if (node) draw();
});
document.addEventListener("visibilitychange", () => (document.hidden ? drawStatus() : update()));
setInterval(drawStatus, 1000);

if (location.hash.length > 1 && location.hash !== "#main") {
  at("filter").value = decodeURIComponent(location.hash.slice(1));
  view.filter = at("filter").value.toLowerCase();
}
update();

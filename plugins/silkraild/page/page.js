// Asks silkraild every two seconds, and shows what it says.

import { devices } from "./devices.js";
import { h, show } from "./dom.js";
import { History } from "./history.js";
import { pods } from "./pods.js";
import { problems } from "./problems.js";
import { opener } from "./tables.js";
import { duration, number, plural, rate } from "./text.js";

const EVERY = 2000;
const PATIENCE = 15000;
const OLD = 10; // seconds
const PROBLEMS = 12; // at first

const at = (id) => document.getElementById(id);
const history = new History();
let node = null;
/** When the reading was made, by this browser's clock that is never put back. */
let made = 0;
let silentSince = null;
let silence = "";
let timer = 0;
let isAsking = false;

/** What is shown of it: the filter's text, and what was opened or closed by hand. */
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

async function ask() {
  if (isAsking) return;
  isAsking = true;
  clearTimeout(timer);
  try {
    const answer = await fetch("/api/v1/node", { signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const told = await answer.json();
    // The node's clock may differ from this machine's: its own Date tells how old the reading was.
    const date = Date.parse(answer.headers.get("date")) / 1000 || told.time;
    made = performance.now() - Math.max(0, date - told.time) * 1000;
    node = told;
    history.enter(node);
    silentSince = null;
  } catch (error) {
    silentSince ??= performance.now();
    silence = error.name === "TimeoutError" || error instanceof TypeError ? "no answer" : error.message;
  }
  isAsking = false;
  draw();
  if (!document.hidden) timer = setTimeout(ask, EVERY);
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

/** Words for the state, spoken when they change; the age, which changes all the time, is not spoken. */
function drawStatus() {
  const age = node ? (performance.now() - made) / 1000 : 0;
  let [state, text] = ["wait", "Asking silkraild…"];
  if (document.hidden) [state, text] = ["wait", "Paused while this page is hidden"];
  else if (silentSince != null) [state, text] = ["bad", `silkraild does not answer: ${silence}`];
  else if (node && age > OLD) [state, text] = ["bad", "silkraild answers with an old reading: a collection hangs"];
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
    tile("Problems", number(found.length), found.length ? "see below" : "none is seen", found.length ? "bad" : "good"),
    tile("Devices", number(node.devices.length), vfs ? `${plural(vfs, "of them a VF", "of them VFs")}` : "none is a VF"),
    tile("Ports active", number(active), `of ${number(ports.length)}`),
    tile("Pods", number(node.pods.length), "with RDMA"),
    tile("Receive", rate(sum("receive")), "all devices"),
    tile("Transmit", rate(sum("transmit")), "all devices"),
  ];
}

const tile = (name, value, more, kind = "") =>
  h("div", { class: `tile ${kind}` }, h("p", { class: "kicker" }, name), h("p", { class: "value" }, value), h("small", {}, more));

function problemList(found) {
  if (found.length === 0) return h("p", { class: "nothing" }, "None is seen.");
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
  // A link to what is shown can be passed on.
  const hash = view.filter ? `#${encodeURIComponent(event.target.value.trim())}` : location.pathname;
  window.history.replaceState(null, "", hash);
  if (node) draw();
});
document.addEventListener("visibilitychange", () => (document.hidden ? drawStatus() : ask()));
setInterval(drawStatus, 1000);

if (location.hash.length > 1 && location.hash !== "#main") {
  at("filter").value = decodeURIComponent(location.hash.slice(1));
  view.filter = at("filter").value.toLowerCase();
}
ask();

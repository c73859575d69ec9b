// The table of pods, with their devices, GIDs, objects and traffic.

import { chart } from "./chart.js";
import { objects } from "./devices.js";
import { h } from "./dom.js";
import { podKey } from "./history.js";
import { cell, row, table } from "./tables.js";
import { address, bytes, number, plural, podName, rate } from "./text.js";

const COLUMNS = ["Pod", "Devices", "GIDs", "Objects", "Receive", "Transmit", "Last 2 minutes"];

/** The methods by which traffic is attributed to a pod. */
const KNOWN_BY = {
  "exclusive-netns": "exclusive device",
  "sole-user": "only user of the device",
  "pid-counter": "counters bound to its processes",
  psn: "packet sequence numbers",
};

export function pods(node, history, view) {
  if (node.pods.length === 0) {
    return h("p", { class: "nothing" }, "No pod of this node has an RDMA device or a GID, and none has opened a device.");
  }
  const found = node.pods.map((pod) => ({ pod, gids: gidsOf(pod, node) }))
    .filter(({ pod, gids }) => view.has(podText(pod, gids)));
  if (found.length === 0) return h("p", { class: "nothing" }, "No pod matches the filter.");
  const caption = view.filter ? `${number(found.length)} of ${plural(node.pods.length, "pod")}` : plural(found.length, "pod");
  return table(caption, COLUMNS, found.map(({ pod, gids }) => podRow(pod, gids, history.pods.get(podKey(pod)))), "main");
}

function podRow(pod, gids, track) {
  const latest = track?.latest;
  const header = [h("span", { class: "name" }, podName(pod)),
    pod.owner ? h("small", {}, `${pod.owner.kind} ${pod.owner.name}`) : null];
  return row(podKey(pod), header, [
    cell("Devices", list(pod.attachments.map(attachment))),
    cell("GIDs", list(gids.map(({ device, gid }) =>
      [`${device} ${gid.index}: ${address(gid.address)} `, h("small", { class: "inline" }, gid.type)]), 4)),
    cell("Objects", list(pod.holdings.map(holding))),
    cell("Receive", rate(latest?.receive)),
    cell("Transmit", rate(latest?.transmit)),
    cell("Last 2 minutes", pod.traffic.length ? [chart(track), h("small", {}, knownBy(pod.traffic))] : "unknown: the device is shared"),
  ]);
}

const knownBy = (traffic) => [...new Set(traffic.map((one) => KNOWN_BY[one.attribution] ?? one.attribution))].join("; ");

function attachment(of) {
  const device = of.device ?? "no RDMA device";
  const mode = of.mode === "none" ? "" : of.mode === "exclusive" ? ", exclusive" : ", shared";
  return [`${device}${mode}`, h("small", {}, [of.interface, of.network, ...of.addresses].filter(Boolean).join(" · "))];
}

function holding(of) {
  const pairs = (of.queuePairs ?? []).map((p) => `${p.count} ${p.type.toUpperCase()} ${p.state.toUpperCase()}`).join(", ");
  const memory = of.memoryBytes ? `, ${bytes(of.memoryBytes)} pinned` : "";
  return [`${of.device}: ${objects(of.objects)}${memory}`, pairs ? h("small", {}, `queue pairs: ${pairs}`) : null];
}

function list(items, most = Infinity) {
  if (items.length === 0) return "–";
  const more = items.length - most;
  return h("ul", {}, items.slice(0, most).map((item) => h("li", {}, item)),
    more > 0 ? h("li", {}, `and ${more} more: see the devices`) : null);
}

function gidsOf(pod, node) {
  const isOurs = (gid) => gid.pod?.namespace === pod.namespace && gid.pod.name === pod.name;
  return node.devices.flatMap((device) => device.ports.flatMap((port) =>
    (port.gids?.entries ?? []).filter(isOurs).map((gid) => ({ device: device.name, gid }))))
    .sort((one, other) => rank(one.gid) - rank(other.gid));
}

/** Sorts RoCE v2 and routable addresses first, because applications use them. */
const rank = (gid) => (gid.address.startsWith("fe80:") ? 2 : 0) + (gid.type === "RoCE v1" ? 1 : 0);

function podText(pod, gids) {
  return [podName(pod), pod.uid, pod.owner?.kind, pod.owner?.name,
    ...pod.attachments.flatMap((a) => [a.device, a.interface, a.network, a.mode, a.pciAddress, ...a.addresses]),
    ...pod.holdings.map((one) => one.device), ...gids.map(({ gid }) => address(gid.address))];
}

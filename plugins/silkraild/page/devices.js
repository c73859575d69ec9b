// The table of devices and their ports, with VFs below their PF.

import { chart } from "./chart.js";
import { h } from "./dom.js";
import { portKey } from "./history.js";
import { portName } from "./problems.js";
import { cell, counts, facts, opener, row, table, wide } from "./tables.js";
import { address, bits, bytes, number, plural, podName, rate, words } from "./text.js";

const COLUMNS = ["Device", "State", "Link", "Pod", "GIDs", "Receive", "Transmit", "Last 2 minutes"];
const MANY = 12;
const order = new Intl.Collator("en", { numeric: true }); // mlx5_2 before mlx5_10

/** Returns the table. `view` contains the filter text and the state of collapsible rows. */
export function devices(node, history, view) {
  if (!node.hasRdma) return nothing("The kernel of this node does not support RDMA.");
  if (node.devices.length === 0) return nothing("This node has no RDMA device, or silkraild is configured to read none.");
  node.devices.sort((one, other) => order.compare(one.name, other.name));
  const found = node.devices.filter((device) => view.has(deviceText(device)));
  if (found.length === 0) return h("p", { class: "nothing" }, "No device matches the filter.");
  const rows = view.filter ? found.flatMap((device) => deviceRows(device, history, view)) : grouped(node, history, view);
  const caption = view.filter ? `${number(found.length)} of ${plural(node.devices.length, "device")}` : plural(found.length, "device");
  return table(caption, COLUMNS, rows, "main");
}

function grouped(node, history, view) {
  const names = new Set(node.devices.map((device) => device.name));
  const parent = (device) => (device.isVf && names.has(device.pfDevice) ? device.pfDevice : null);
  const tops = node.devices.filter((device) => !parent(device));
  return tops.flatMap((device) => {
    const vfs = node.devices.filter((vf) => parent(vf) === device.name);
    return [...deviceRows(device, history, view), ...vfRows(device, vfs, node.devices.length, history, view)];
  });
}

function vfRows(pf, vfs, all, history, view) {
  if (vfs.length === 0) return [];
  const key = `vfs ${pf.index}`;
  const isOpen = view.isOpen(key, all <= MANY);
  const inPods = vfs.filter((vf) => vf.pod).length;
  const active = vfs.filter(isActive).length;
  const text = `${plural(vfs.length, "VF")} of ${pf.name}: ${active} active${inPods ? `, ${inPods} in pods` : ""}`;
  const head = wide(key, COLUMNS.length, opener(isOpen, () => view.toggle(key, all <= MANY), text), "group");
  return isOpen ? [head, ...vfs.flatMap((vf) => deviceRows(vf, history, view))] : [head];
}

const isActive = (device) => device.ports.some((port) => port.state === "active");

function deviceRows(device, history, view) {
  if (device.ports.length === 0) {
    return [row(`device ${device.index}`, device.name, [h("td", { role: "cell", colspan: COLUMNS.length - 1 }, "has no port")])];
  }
  return device.ports.flatMap((port) => portRows(device, port, history.ports.get(portKey(device, port)), view));
}

function portRows(device, port, track, view) {
  const key = `port ${portKey(device, port)}`;
  const isOpen = view.isOpen(key);
  const latest = track?.latest;
  const header = opener(isOpen, () => view.toggle(key), h("span", { class: "name" }, portName(device, port)),
    h("small", {}, device.isVf ? `VF of ${device.pfDevice ?? "an unknown PF"}` : device.driver ?? "software"));
  const cells = [
    cell("State", state(port)),
    cell("Link", port.netdev ?? port.linkLayer, port.speed ? h("small", {}, bits(port.speed)) : null),
    cell("Pod", device.pod ? podName(device.pod) : device.netns === "pod" ? "unknown pod" : "–"),
    cell("GIDs", gidUse(port)),
    cell("Receive", rate(latest?.receive), ofLink(latest?.receive, port)),
    cell("Transmit", rate(latest?.transmit), ofLink(latest?.transmit, port)),
    cell("Last 2 minutes", chart(track)),
  ];
  const rows = [row(key, header, cells, device.isVf ? "vf" : "")];
  if (isOpen) rows.push(wide(`${key} more`, COLUMNS.length, more(device, port, track), "more"));
  return rows;
}

function ofLink(bytes, port) {
  if (!bytes || !port.speed) return null;
  return h("small", {}, `${((bytes * 800) / port.speed).toFixed(0)} % of the link`);
}

function state(port) {
  const kind = port.state === "active" ? "good" : port.physicalState === "disabled" ? "off" : "bad";
  return h("span", { class: `state ${kind}` }, words(port.state));
}

function gidUse(port) {
  if (!port.gids) return "–";
  const { entries, capacity } = port.gids;
  return [`${entries.length} of ${capacity}`,
    h("meter", { min: 0, max: capacity, value: entries.length, high: capacity * 0.9, "aria-hidden": "true" })];
}

function more(device, port, track) {
  const pairs = (of) => Object.entries(of ?? {}).map(([name, value]) => [words(name), value ? number(value) : ""]);
  return h("div", { class: "panels" },
    h("div", { class: "panel wide" }, chart(track, "large")),
    h("div", { class: "panel" }, facts([
      ["Driver", device.driver],
      ["Firmware", device.firmware],
      ["Board", device.board],
      ["PCI", device.pciAddress],
      ["NUMA node", device.numaNode],
      ["Node GUID", device.nodeGuid],
      ["PF", device.isVf ? [device.pfDevice, device.pfNetdev].filter(Boolean).join(", ") : null],
      ["Protocol", device.protocol],
      ["Traffic class", device.trafficClass],
      ["Namespace", device.netns === "pod" ? `of ${device.pod ? `pod ${podName(device.pod)}` : "an unknown pod"}` : "host"],
      ["Physical state", words(port.physicalState)],
      ["Link", [port.linkLayer, port.netdev].filter(Boolean).join(", ")],
      ["Received", bytes(port.counters.receiveBytes)],
      ["Sent", bytes(port.counters.transmitBytes)],
      ["Packets received", number(port.counters.receivePackets)],
      ["Packets sent", number(port.counters.transmitPackets)],
      ["Objects", objects(device.objects)],
      ["Not held by pods", (device.otherHolders ?? []).map((o) => `${o.who === "node" ? "host" : "unknown"}: ${objects(o.objects)}`).join("; ")],
    ])),
    h("div", { class: "panel" }, gidTable(port)),
    h("div", { class: "panel" }, counts("Errors since the driver was loaded", pairs(port.counters.errors)),
      counts("Congestion", pairs(port.counters.congestion)),
      counts("Pauses and discards", (port.counters.priorities ?? []).map(priority).filter(([, text]) => text))));
}

const KINDS = { qp: "QPs", cq: "CQs", mr: "MRs", pd: "PDs", ctx: "contexts", srq: "SRQs", cmId: "CM IDs", cm_id: "CM IDs" };

/** Formats the number of objects of each kind: "3 QPs, 4 CQs". */
export const objects = (counts) => Object.entries(KINDS).filter(([kind]) => counts[kind])
  .map(([kind, name]) => `${number(counts[kind])} ${counts[kind] === 1 ? name.slice(0, -1) : name}`).join(", ");

function gidTable(port) {
  if (!port.gids?.entries.length) return h("p", { class: "nothing" }, "The GID table is empty.");
  const rows = port.gids.entries.map((gid) => row(gid.index, gid.index, [
    cell("Address", address(gid.address)),
    cell("Type", gid.type),
    cell("Network device", gid.netdev ?? "–"),
    cell("Pod", gid.pod ? podName(gid.pod) : "–"),
  ]));
  return table(`GID table: ${port.gids.entries.length} of ${port.gids.capacity} in use`,
    ["Index", "Address", "Type", "Network device", "Pod"], rows, "gids");
}

function priority(of) {
  const texts = [
    of.pauseFrames ? `${plural(of.pauseFrames, "pause frame")}` : null,
    of.pauseSeconds ? `${of.pauseSeconds.toFixed(3)} s paused` : null,
    of.discards ? `${plural(of.discards, "packet")} discarded` : null,
  ];
  return [`${of.direction}, priority ${of.priority}`, texts.filter(Boolean).join(", ")];
}

function deviceText(device) {
  const ports = device.ports.flatMap((port) => [port.state, port.netdev,
    ...(port.gids?.entries ?? []).flatMap((gid) => [address(gid.address), gid.pod && podName(gid.pod)])]);
  return [device.name, device.driver, device.pciAddress, device.pfDevice, device.isVf ? "VF" : "PF",
    device.pod && podName(device.pod), ...ports];
}

function nothing(what) {
  return h("div", { class: "notice" }, h("p", {}, h("strong", {}, what)),
    h("ol", {},
      h("li", {}, "Check that there is an adapter: ", h("code", {}, "lspci | grep -iE 'infiniband|ethernet'")),
      h("li", {}, "Load its RDMA driver: ", h("code", {}, "modprobe mlx5_ib"), " for NVIDIA, ", h("code", {}, "irdma"),
        " for Intel, ", h("code", {}, "bnxt_re"), " for Broadcom, ", h("code", {}, "efa"), " for AWS. ",
        h("code", {}, "dmesg"), " shows why a driver fails to load."),
      h("li", {}, "If silkraild runs in a container, mount the root directory of the node and set ",
        h("code", {}, "--root"), ". Check that ", h("code", {}, "--device-include"), " and ",
        h("code", {}, "--device-exclude"), " do not exclude all devices."),
      h("li", {}, "To try RDMA without a card: ", h("code", {}, "rdma link add rxe0 type rxe netdev eth0"),
        " after ", h("code", {}, "modprobe rdma_rxe"), ".")),
    h("p", {}, "New devices appear here automatically."));
}

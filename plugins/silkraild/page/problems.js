// What is wrong, in words: [{what, why}], the worst first.

import { portKey } from "./history.js";
import { duration, number, plural, podName, words } from "./text.js";

/** What each kind of error means for whoever looks for its cause. */
const ERRORS = {
  out_of_sequence: "packets arrive out of order: packets are lost on the way, look at discards of the switches",
  packet_seq_err: "the other side misses packets: packets are lost on the way, look at discards of the switches",
  implied_nak: "answers are missing: packets are lost on the way, look at discards of the switches",
  ack_timeout: "no acknowledgement came in time: the peer is gone, or packets are lost on the way",
  rnr_nak: "the peer was not ready: its application posts receive buffers too slowly",
  rnr_no_wqe: "packets dropped for want of a receive buffer: the application here posts them too slowly",
  retries_exceeded: "connections were given up after the last retry: the peer or the path is gone",
  rnr_retries_exceeded: "connections were given up, for the peer was never ready",
  remote_access: "access to memory was refused: an application uses a wrong key or address",
  remote_invalid_request: "requests were found invalid: an application's fault",
  local_length: "messages were longer than the receive buffer: an application's fault",
  cqe_error: "work requests failed; the application was told",
  icrc: "packets with a wrong checksum: look at cables and optics",
  discard: "packets were dropped by the port",
};
const NORMAL = new Set(["cqe_flush"]); // when a queue pair ends
const NEARLY_FULL = 0.9;
const PAUSED_MUCH = 0.05;

export function problems(node, history) {
  return [
    ...node.devices.flatMap((device) => device.ports.flatMap((port) => [...ofPort(device, port, node, history)])),
    ...node.pods.flatMap((pod) => [...ofPod(pod)]),
    ...node.devices.flatMap((device) => [...ofOthers(device)]),
    ...node.collectors.filter((collector) => !collector.succeeded).map(ofCollector),
  ];
}

export const portName = (device, port) =>
  device.ports.length > 1 ? `${device.name} port ${port.number}` : device.name;

function* ofPort(device, port, node, history) {
  const name = portName(device, port);
  const users = usersOf(device, node);
  if (port.state !== "active" && (port.physicalState !== "disabled" || users.length)) {
    const used = users.length ? `, and ${users.map(podName).join(", ")} ${users.length === 1 ? "has" : "have"} it` : "";
    yield { what: `${name} is ${words(port.state)}${used}`, why: downBecause(port) };
  }
  const track = history.ports.get(portKey(device, port));
  for (const [error, more] of Object.entries(track.sum("errors"))) {
    if (NORMAL.has(error)) continue;
    const why = ERRORS[error] ?? "a driver's own kind of error";
    yield { what: `${name}: ${number(more)} × ${words(error)} in ${duration(track.seconds)}`, why };
  }
  for (const [priority, seconds] of Object.entries(track.sum("paused"))) {
    const share = seconds / track.seconds;
    if (share < PAUSED_MUCH) continue;
    const what = `${name}: priority ${priority} was paused for ${Math.min(100, share * 100).toFixed(0)} % of ${duration(track.seconds)}`;
    yield { what, why: "the network told this port to stop: a receiver or a switch behind it is congested" };
  }
  const gids = port.gids;
  if (gids && gids.entries.length >= gids.capacity * NEARLY_FULL) {
    const what = `${name}: ${gids.entries.length} of ${gids.capacity} GID entries are in use`;
    yield { what, why: "the next pod in shared mode may get none: each of its addresses takes two" };
  }
}

/** The pods that were given a device. */
export const usersOf = (device, node) =>
  node.pods.filter((pod) => (device.pod ? isSame(device.pod, pod) : pod.attachments.some((a) => a.device === device.name)));

const isSame = (one, other) => one.namespace === other.namespace && one.name === other.name;

function downBecause(port) {
  const link = port.netdev ?? "its network device";
  switch (port.physicalState) {
    case "disabled": return `is ${link} up, and has it a carrier?`;
    case "polling": return "no signal from the other side: look at the cable and the switch's port";
    case "link_training": return "the link is being trained; if that lasts, look at the cable";
    case "link_up": return port.linkLayer === "InfiniBand" ? "the link is there: is a subnet manager running?" : `the link is there: is ${link} up?`;
    default: return `its physical state is ${words(port.physicalState)}`;
  }
}

function* ofPod(pod) {
  for (const holding of pod.holdings) yield* brokenPairs(holding, podName(pod));
}

function* ofOthers(device) {
  for (const other of device.otherHolders ?? [])
    yield* brokenPairs(other, other.who === "node" ? "the node itself" : "somebody unknown");
}

function* brokenPairs(holding, who) {
  const broken = (holding.queuePairs ?? []).filter((pairs) => pairs.state === "err" || pairs.state === "sqe");
  const count = broken.reduce((sum, pairs) => sum + pairs.count, 0);
  if (count) {
    const what = `${who}: ${plural(count, "queue pair")} in the error state on ${holding.device}`;
    yield { what, why: "a connection failed; the application has to make it anew, its log should say why it failed" };
  }
}

function ofCollector(collector) {
  const texts = collector.troubles.filter((trouble) => trouble.isFailure).map((trouble) => trouble.text);
  const more = collector.troubleCount - collector.troubles.length;
  const list = [...new Set(texts)].slice(0, 3).join("; ");
  return { what: `silkraild could not read everything: ${words(collector.name)}`, why: more > 0 ? `${list}; and ${number(more)} more` : list };
}

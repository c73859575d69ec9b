// Detects problems and explains them: [{what, why}], the worst first.

import { portKey } from "./history.js";
import { duration, number, plural, podName, words } from "./text.js";

/** The probable cause of each kind of error. */
const ERRORS = {
  out_of_sequence: "packets arrive out of order: packets are lost in the network, check the discard counters of the switches",
  packet_seq_err: "the peer misses packets: packets are lost in the network, check the discard counters of the switches",
  implied_nak: "responses are missing: packets are lost in the network, check the discard counters of the switches",
  ack_timeout: "acknowledgements timed out: the peer is gone, or packets are lost in the network",
  rnr_nak: "the peer was not ready: its application posts receive buffers too slowly",
  rnr_no_wqe: "packets were dropped without a receive buffer: the local application posts them too slowly",
  retries_exceeded: "connections failed after the last retry: the peer or the path is gone",
  rnr_retries_exceeded: "connections failed because the peer was never ready to receive",
  remote_access: "access to memory was denied: an application uses an invalid key or address",
  remote_invalid_request: "requests were invalid: an error of an application",
  local_length: "messages were longer than the receive buffer: an error of an application",
  cqe_error: "work requests failed; the application got an error completion",
  icrc: "packets with an invalid checksum: check cables and optics",
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
    const used = users.length ? `, used by ${users.map(podName).join(", ")}` : "";
    yield { what: `${name} is ${words(port.state)}${used}`, why: downBecause(port) };
  }
  const track = history.ports.get(portKey(device, port));
  for (const [error, more] of Object.entries(track.sum("errors"))) {
    if (NORMAL.has(error)) continue;
    const why = ERRORS[error] ?? "an error specific to the driver";
    yield { what: `${name}: ${number(more)} × ${words(error)} in ${duration(track.seconds)}`, why };
  }
  for (const [priority, seconds] of Object.entries(track.sum("paused"))) {
    const share = seconds / track.seconds;
    if (share < PAUSED_MUCH) continue;
    const what = `${name}: priority ${priority} was paused for ${Math.min(100, share * 100).toFixed(0)} % of ${duration(track.seconds)}`;
    yield { what, why: "the network paused this port: a receiver or a switch behind it is congested" };
  }
  const gids = port.gids;
  if (gids && gids.entries.length >= gids.capacity * NEARLY_FULL) {
    const what = `${name}: ${gids.entries.length} of ${gids.capacity} GID entries are in use`;
    yield { what, why: "the next pod in shared mode may get no GID: each of its addresses needs two" };
  }
}

/** Returns the pods that have an attachment with the device. */
export const usersOf = (device, node) =>
  node.pods.filter((pod) => (device.pod ? isSame(device.pod, pod) : pod.attachments.some((a) => a.device === device.name)));

const isSame = (one, other) => one.namespace === other.namespace && one.name === other.name;

function downBecause(port) {
  const link = port.netdev ?? "its network device";
  switch (port.physicalState) {
    case "disabled": return `check that ${link} is up and has a carrier`;
    case "polling": return "no signal from the peer: check the cable and the switch port";
    case "link_training": return "the link is being trained; if this persists, check the cable";
    case "link_up": return port.linkLayer === "InfiniBand" ? "the physical link is up: check that a subnet manager is running" : `the physical link is up: check that ${link} is up`;
    default: return `the physical state is ${words(port.physicalState)}`;
  }
}

function* ofPod(pod) {
  for (const holding of pod.holdings) yield* brokenPairs(holding, podName(pod));
}

function* ofOthers(device) {
  for (const other of device.otherHolders ?? [])
    yield* brokenPairs(other, other.who === "node" ? "processes of the host" : "an unknown process");
}

function* brokenPairs(holding, holder) {
  const broken = (holding.queuePairs ?? []).filter((pairs) => pairs.state === "err" || pairs.state === "sqe");
  const count = broken.reduce((sum, pairs) => sum + pairs.count, 0);
  if (count) {
    const what = `${holder}: ${plural(count, "queue pair")} in the error state on ${holding.device}`;
    yield { what, why: "a connection failed; the application must re-establish it, and its log should contain the cause" };
  }
}

function ofCollector(collector) {
  const texts = collector.troubles.filter((error) => error.isFailure).map((error) => error.text);
  const more = collector.troubleCount - collector.troubles.length;
  const list = [...new Set(texts)].slice(0, 3).join("; ");
  return { what: `silkraild could not read all values: ${words(collector.name)}`, why: more > 0 ? `${list}; and ${number(more)} more` : list };
}

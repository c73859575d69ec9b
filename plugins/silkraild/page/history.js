// The counters and rates of the last two minutes.

export const SPAN = 120;

/** The samples of one port or pod: the increase of its counters between two snapshots. */
class Track {
  samples = []; // {time, receive, transmit: bytes per second since the previous sample}
  last = null;

  enter(time, counters) {
    const former = this.last;
    this.last = { time, counters };
    const seconds = former ? time - former.time : 0;
    this.samples = this.samples.filter((sample) => sample.time > time - SPAN);
    if (seconds <= 0) return;
    const since = (of) => {
      const [now, before] = [of(counters), of(former.counters)];
      return now == null || before == null || now < before ? null : (now - before) / seconds;
    };
    this.samples.push({
      time,
      seconds,
      receive: since((c) => c.receiveBytes),
      transmit: since((c) => c.transmitBytes),
      errors: increases(counters.errors, former.counters.errors),
      paused: increases(paused(counters), paused(former.counters)),
    });
  }

  get latest() {
    return this.samples.at(-1);
  }

  /** Returns the increase of counters in the last two minutes, by name. `kind` is "errors" or "paused". */
  sum(kind) {
    const sums = {};
    for (const sample of this.samples)
      for (const [name, more] of Object.entries(sample[kind])) sums[name] = (sums[name] ?? 0) + more;
    return sums;
  }

  get seconds() {
    return this.samples.reduce((sum, sample) => sum + sample.seconds, 0);
  }
}

function increases(now = {}, before = {}) {
  const grown = Object.entries(now).filter(([name, value]) => value > (before[name] ?? value));
  return Object.fromEntries(grown.map(([name, value]) => [name, value - before[name]]));
}

/** Returns the seconds for which the network has paused each priority. */
function paused(counters) {
  const priorities = (counters.priorities ?? []).filter((p) => p.direction === "receive" && p.pauseSeconds != null);
  return Object.fromEntries(priorities.map((p) => [p.priority, p.pauseSeconds]));
}

export const portKey = (device, port) => `${device.index}/${port.number}`;
export const podKey = (pod) => `${pod.namespace}/${pod.name}/${pod.uid ?? ""}`;

/** The tracks of all ports and pods. */
export class History {
  ports = new Map();
  pods = new Map();

  /** Adds a snapshot. One with the same time, as when a collection hangs, adds nothing. */
  enter(node) {
    if (node.time < this.time) this.ports = this.pods = new Map(); // the node's clock was set back
    this.time = node.time;
    const ports = node.devices.flatMap((device) =>
      device.ports.map((port) => [portKey(device, port), port.counters]));
    this.ports = advance(this.ports, ports, node.time);
    this.pods = advance(this.pods, node.pods.map((pod) => [podKey(pod), total(pod.traffic)]), node.time);
  }
}

/** Returns the tracks of current objects; those of removed objects are dropped. */
function advance(former, now, time) {
  return new Map(now.map(([key, counters]) => {
    const track = former.get(key) ?? new Track();
    track.enter(time, counters);
    return [key, track];
  }));
}

/** Returns the traffic of a pod on all ports, for all methods of attribution. */
export function total(traffic) {
  const sum = (of) => {
    const known = traffic.map((one) => one.counters[of]).filter((value) => value != null);
    return known.length ? known.reduce((a, b) => a + b) : undefined;
  };
  return { receiveBytes: sum("receiveBytes"), transmitBytes: sum("transmitBytes") };
}

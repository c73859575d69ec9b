// What was counted in the last two minutes, and how fast.

export const SPAN = 120;

/** Counters of one thing: what it counted between two readings. */
class Track {
  samples = []; // {time, receive, transmit: bytes per second since the sample before}
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

  /** What was added to counters of the last two minutes, by name: {errors}, {paused}. */
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

/** Seconds for which each priority had to stop sending. */
function paused(counters) {
  const told = (counters.priorities ?? []).filter((p) => p.direction === "receive" && p.pauseSeconds != null);
  return Object.fromEntries(told.map((p) => [p.priority, p.pauseSeconds]));
}

export const portKey = (device, port) => `${device.index}/${port.number}`;
export const podKey = (pod) => `${pod.namespace}/${pod.name}/${pod.uid ?? ""}`;

/** What is remembered of every port and every pod. */
export class History {
  ports = new Map();
  pods = new Map();

  /** Enters a reading. The same one again, as when a collection hangs, adds nothing. */
  enter(node) {
    if (node.time < this.time) this.ports = this.pods = new Map(); // the node's clock was put back
    this.time = node.time;
    const ports = node.devices.flatMap((device) =>
      device.ports.map((port) => [portKey(device, port), port.counters]));
    this.ports = advance(this.ports, ports, node.time);
    this.pods = advance(this.pods, node.pods.map((pod) => [podKey(pod), total(pod.traffic)]), node.time);
  }
}

/** Tracks of what is there; those of what went are forgotten. */
function advance(former, now, time) {
  return new Map(now.map(([key, counters]) => {
    const track = former.get(key) ?? new Track();
    track.enter(time, counters);
    return [key, track];
  }));
}

/** A pod's traffic on all ports, however it is known. */
export function total(traffic) {
  const sum = (of) => {
    const known = traffic.map((one) => one.counters[of]).filter((value) => value != null);
    return known.length ? known.reduce((a, b) => a + b) : undefined;
  };
  return { receiveBytes: sum("receiveBytes"), transmitBytes: sum("transmitBytes") };
}

// Formats numbers, units and names for display.

const count = new Intl.NumberFormat("en");

export const number = (value) => (value == null ? "–" : count.format(value));

function scaled(value, step, units) {
  let at = 0;
  while (value >= step && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  const digits = at === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[at]}`;
}

/** Formats a rate in bits per second, the unit of link speeds. `bytes` is in bytes per second. */
export const rate = (bytes) => (bytes == null ? "–" : bits(bytes * 8));
export const bits = (value) => scaled(value, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]);
export const bytes = (value) => (value == null ? "–" : scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]));

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

export const words = (name) => name.replaceAll("_", " ");
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** Formats a GID as an address: an IPv4-mapped IPv6 address becomes an IPv4 address. */
export const address = (gid) => gid.replace(/^::ffff:(?=\d+\.)/, "");

/** Returns the namespace and name of a pod. If they are unknown, `name` is the UID. */
export const podName = (pod) => (pod.namespace ? `${pod.namespace}/${pod.name}` : pod.name);

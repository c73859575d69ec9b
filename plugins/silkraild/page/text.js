// Numbers and names as people read them.

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

/** A rate in bits per second, from bytes per second: links are measured in bits. */
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

/** An address as people write it: an IPv4 address in a GID is mapped. */
export const address = (gid) => gid.replace(/^::ffff:(?=\d+\.)/, "");

/** What a pod is called; one whose name nobody knows has its UID for a name. */
export const podName = (pod) => (pod.namespace ? `${pod.namespace}/${pod.name}` : pod.name);

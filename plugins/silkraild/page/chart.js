// A chart of the receive and transmit rates of the last two minutes.

import { h } from "./dom.js";
import { SPAN } from "./history.js";
import { rate } from "./text.js";

/** Draws a track as SVG. Transmit is dashed, so that the lines differ not only in colour. */
export function chart(track, kind = "small") {
  const [width, height] = kind === "small" ? [120, 28] : [600, 120];
  const samples = track?.samples ?? [];
  const values = samples.flatMap((s) => [s.receive, s.transmit]).filter((value) => value != null);
  if (values.length === 0) return h("span", { class: "nothing" }, "no data yet");
  const peak = Math.max(...values);
  const now = samples.at(-1).time;
  const x = (time) => (width * (1 - (now - time) / SPAN)).toFixed(1);
  const y = (value) => (height - 1 - (peak > 0 ? (value / peak) * (height - 3) : 0)).toFixed(1);
  // A sample is the mean since the previous one: a step, not a slope.
  const line = (of) => samples.filter((s) => s[of] != null)
    .map((s) => `${x(s.time - s.seconds)},${y(s[of])} ${x(s.time)},${y(s[of])}`).join(" ");
  const label = `receive ${rate(samples.at(-1).receive)}, transmit ${rate(samples.at(-1).transmit)}; ` +
    `peak of the last two minutes ${rate(peak)}`;
  const svg = h("svg", { class: `chart ${kind}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none",
    role: "img", "aria-label": label },
    h("polyline", { class: "base", points: `0,${height - 1} ${width},${height - 1}` }),
    h("polyline", { class: "receive", points: line("receive") }),
    h("polyline", { class: "transmit", points: line("transmit") }));
  if (kind === "small") return svg;
  return h("figure", {}, svg, h("figcaption", {},
    h("span", {}, "2 min ago"), h("span", { class: "key receive" }, "receive"),
    h("span", { class: "key transmit" }, "transmit"), h("span", {}, `peak ${rate(peak)}`), h("span", {}, "now")));
}

// Tables. On small screens each row is shown as a card; ARIA roles keep the table structure for screen readers.

import { h } from "./dom.js";

/** The content of an empty cell. Small screens do not show it. */
const NONE = "–";

export const th = (text) => h("th", { role: "columnheader", scope: "col" }, text);
export const cell = (label, ...content) =>
  h("td", { role: "cell", "data-label": label, class: content.length === 1 && content[0] === NONE ? "none" : "" },
    h("div", { class: "value" }, ...content));

/** Returns a table with a caption. `rows` are results of row() and wide(). */
export function table(caption, columns, rows, kind = "") {
  return h("table", { role: "table", class: kind },
    h("caption", {}, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(th))),
    h("tbody", { role: "rowgroup" }, rows));
}

/** Returns a row with a header cell. */
export function row(key, header, cells, kind = "") {
  return h("tr", { key, role: "row", class: kind }, h("th", { role: "rowheader", scope: "row" }, header), cells);
}

/** Returns a row with one cell across all columns. */
export function wide(key, columns, content, kind) {
  return h("tr", { key, role: "row", class: kind }, h("td", { role: "cell", colspan: columns }, content));
}

/** Returns a list of names and values, without those that have no value. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value != null && value !== "");
  return h("dl", {}, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Returns a table of the nonzero counters, with the names of the others in one row; null without counters. */
export function counts(caption, pairs) {
  if (pairs.length === 0) return null;
  const counted = pairs.filter(([, value]) => value);
  const zero = pairs.filter(([, value]) => !value).map(([name]) => name).join(", ");
  return h("table", { role: "table", class: "counts" }, h("caption", {}, caption), h("tbody", { role: "rowgroup" },
    counted.map(([name, value]) => row(null, name, [h("td", { role: "cell" }, value)])),
    zero ? wide("zero", 2, h("small", {}, `none: ${zero}`)) : null));
}

/** Returns a button that opens and closes a row. */
export function opener(isOpen, toggle, ...content) {
  return h("button", { type: "button", class: "opener", "aria-expanded": String(isOpen), onclick: toggle }, ...content);
}

// Tables that stay tables on a phone, where each row is shown as a card: roles say so to screen readers.

import { h } from "./dom.js";

/** What a cell has that has nothing; on a phone it is left out. */
const NONE = "–";

export const th = (text) => h("th", { role: "columnheader", scope: "col" }, text);
export const cell = (label, ...content) =>
  h("td", { role: "cell", "data-label": label, class: content.length === 1 && content[0] === NONE ? "none" : "" },
    h("div", { class: "value" }, ...content));

/** A table under a caption. `rows` are of row() and of wide(). */
export function table(caption, columns, rows, kind = "") {
  return h("table", { role: "table", class: kind },
    h("caption", {}, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(th))),
    h("tbody", { role: "rowgroup" }, rows));
}

/** A row with its header. */
export function row(key, header, cells, kind = "") {
  return h("tr", { key, role: "row", class: kind }, h("th", { role: "rowheader", scope: "row" }, header), cells);
}

/** A row with one cell. */
export function wide(key, columns, content, kind) {
  return h("tr", { key, role: "row", class: kind }, h("td", { role: "cell", colspan: columns }, content));
}

/** Names and values; those without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value != null && value !== "");
  return h("dl", {}, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** A small table of what has counted something, and in words what has not; nothing if there is no counter. */
export function counts(caption, pairs) {
  if (pairs.length === 0) return null;
  const counted = pairs.filter(([, value]) => value);
  const zero = pairs.filter(([, value]) => !value).map(([name]) => name).join(", ");
  return h("table", { role: "table", class: "counts" }, h("caption", {}, caption), h("tbody", { role: "rowgroup" },
    counted.map(([name, value]) => row(null, name, [h("td", { role: "cell" }, value)])),
    zero ? wide("zero", 2, h("small", {}, `none: ${zero}`)) : null));
}

/** A button that opens and closes what it names. */
export function opener(isOpen, toggle, ...content) {
  return h("button", { type: "button", class: "opener", "aria-expanded": String(isOpen), onclick: toggle }, ...content);
}

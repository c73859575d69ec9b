// A small virtual DOM. Elements are described from scratch for each snapshot, and the document is changed only where it
// differs, so that focus, selection and the position of a screen reader are kept. Strings become text nodes, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Describes an element. `on…` attributes are handlers; `key` identifies it among its siblings; null children are skipped. */
export function h(tag, attributes, ...children) {
  return { tag, attributes: attributes ?? {}, children: children.flat(Infinity).filter((c) => c != null && c !== false) };
}

/** Updates the children of an element to match their descriptions. */
export function show(parent, ...described) {
  const wanted = described.flat(Infinity).filter((one) => one != null && one !== false);
  const kept = new Map();
  for (const node of parent.childNodes) if (node.described?.key != null) kept.set(node.described.key, node);
  let at = parent.firstChild;
  for (const one of wanted) {
    const key = one.attributes?.key;
    let node = key != null ? kept.get(key) : at;
    kept.delete(key);
    if (!node || !fits(node, one)) node = make(one, parent);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    fill(node, one);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function fits(node, one) {
  if (typeof one !== "object") return node.nodeType === Node.TEXT_NODE;
  return node.localName === one.tag && node.described?.key == one.attributes.key;
}

function make(one, parent) {
  if (typeof one !== "object") return document.createTextNode("");
  const isSvg = one.tag === "svg" || parent.namespaceURI === SVG;
  return isSvg ? document.createElementNS(SVG, one.tag) : document.createElement(one.tag);
}

function fill(node, one) {
  if (typeof one !== "object") {
    const text = String(one);
    if (node.data !== text) node.data = text;
    return;
  }
  const former = node.described ?? {};
  for (const name in former) if (!(name in one.attributes)) set(node, name, null);
  for (const [name, value] of Object.entries(one.attributes)) if (former[name] !== value) set(node, name, value);
  node.described = one.attributes;
  show(node, one.children);
}

function set(node, name, value) {
  if (name === "key") return;
  if (name.startsWith("on")) node[name] = value;
  else if (value == null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

// What is shown: one object, told to whoever listens, undone mask by mask, and kept in the address.
export const state = {
  place: null, // {task, tuning, step}
  mask: "", // "1" where a unit is open: heads row by row, then MLPs
  ablate: "mean",
  first: "",
  second: "",
  head: null, // [layer, head]
  colour: "", // name of a colouring
  normed: false,
  masked: true,
  each: 50,
};
export const model = {}; // what the server says of the model shown
const listeners = [];
const undone = { past: [], future: [] };

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export function on(names, listener) {
  listeners.push([names, listener]);
}

export function change(patch) {
  const changed = Object.keys(patch).filter((name) => !same(state[name], patch[name]));
  if (!changed.length) return;
  Object.assign(state, patch);
  for (const [names, listener] of listeners) {
    if (names.some((name) => changed.includes(name))) listener(changed);
  }
}

// for what is no part of the state: "model", once the server has told of another one
export function tell(name) {
  for (const [names, listener] of listeners) if (names.includes(name)) listener([name]);
}

// masks, with a way back

export function setMask(mask, patch = {}) {
  if (mask === state.mask) return change(patch);
  undone.past.push(state.mask);
  undone.past.splice(0, undone.past.length - 500);
  undone.future.length = 0;
  change({ mask, ...patch });
}

export const canUndo = () => undone.past.length > 0;
export const canRedo = () => undone.future.length > 0;

export function undo() {
  if (!canUndo()) return;
  undone.future.push(state.mask);
  change({ mask: undone.past.pop() });
}

export function redo() {
  if (!canRedo()) return;
  undone.past.push(state.mask);
  change({ mask: undone.future.pop() });
}

export function forget() {
  undone.past.length = undone.future.length = 0;
}

// units in flat order

export const heads = () => model.units.layers * model.units.heads;
export const layerOf = (unit) => (unit < heads() ? Math.floor(unit / model.units.heads) : unit - heads());
export const headOf = (unit) => (unit < heads() ? [layerOf(unit), unit % model.units.heads] : null);
export const unitOf = (layer, head) => layer * model.units.heads + head;
export const nameOf = (unit) => (unit < heads() ? `L${layerOf(unit)}.H${unit % model.units.heads}` : `L${layerOf(unit)}.MLP`);
export const isOpen = (unit) => state.mask[unit] === "1";
export const toggled = (mask, unit) => mask.slice(0, unit) + (mask[unit] === "1" ? "0" : "1") + mask.slice(unit + 1);
export const asked = () => ({ place: state.place, mask: state.mask, ablate: state.ablate });
export const texts = () => ({ first: state.first, second: state.second.trim() ? state.second : null });
export const hasText = () => state.first.trim() !== "" && !(model.pair && state.second.trim() === "");

// the address: a link restores all of it

const toHex = (mask) =>
  (mask.match(/.{1,4}/g) ?? []).map((four) => parseInt(four.padEnd(4, "0"), 2).toString(16)).join("");
const fromHex = (hex, length) =>
  [...hex].map((digit) => parseInt(digit, 16).toString(2).padStart(4, "0")).join("").slice(0, length);

export function address() {
  const { place, mask, ablate, first, second, head, colour, normed, masked, each } = state;
  const parts = new URLSearchParams({ ...place, open: `${mask.length}.${toHex(mask)}`, ablate, first, second });
  if (head) parts.set("head", head.join("."));
  if (colour) parts.set("colour", colour);
  parts.set("attention", `${normed ? "normed" : "raw"}.${masked ? "open" : "full"}`);
  parts.set("each", each);
  return `#${parts}`;
}

// What an address says, as far as it can be used: {} where it says nothing.
export function fromAddress(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  if (!parts.has("open")) return {};
  const [length, hex] = parts.get("open").split(".");
  const mask = /^[0-9a-f]*$/.test(hex ?? "") ? fromHex(hex, Number(length)) : "";
  const attention = parts.get("attention") ?? "";
  const head = /^\d+\.\d+$/.test(parts.get("head") ?? "") ? parts.get("head").split(".").map(Number) : null;
  return {
    place: { task: parts.get("task") ?? "", tuning: Number(parts.get("tuning")), step: Number(parts.get("step")) },
    mask,
    ablate: parts.get("ablate") ?? "",
    first: parts.get("first") ?? "",
    second: parts.get("second") ?? "",
    head,
    colour: parts.get("colour") ?? "",
    normed: attention.startsWith("normed"),
    masked: !attention.endsWith("full"),
    each: Number(parts.get("each")) || 50,
  };
}

// The model as a picture: a click closes or opens, a drag does so for several, arrows walk over it.
import { colouring, inWords, onColours, tones } from "./colour.js";
import { byId, make, many, speak } from "./dom.js";
import {
  canRedo, canUndo, change, headOf, heads, isOpen, layerOf, model, nameOf, on, redo, setMask, state, toggled, undo, unitOf,
} from "./state.js";

const grid = byId("grid");
let cells = []; // by unit
let focused = 0;
let shape = 0; // heads of a layer
let dragging = null; // {value, mask}: what a drag makes of the units it passes

const looking = () => document.querySelector("[name=clicking]:checked").value === "look";

// the units of a layer: its heads, then its MLP
const rowOf = (layer) => [...Array(model.units.heads).keys()].map((head) => unitOf(layer, head)).concat(heads() + layer);

function build() {
  const { layers, heads: across } = model.units;
  shape = across;
  grid.style.setProperty("--across", across);
  grid.classList.toggle("many", across > 16);
  cells = Array(layers * (across + 1));
  const numbers = [...Array(across).keys()].map((head) => make("span", { role: "columnheader", text: head }));
  const top = make("div", { role: "row", class: "numbers" }, make("span", { role: "columnheader", text: "layer" }), ...numbers,
    make("span", { role: "columnheader", text: "MLP" }));
  const rows = [...Array(layers).keys()].reverse().map((layer) => {
    const name = make("button", { class: "layer", text: layer, title: `Close or open the heads of layer ${layer}`,
      "aria-label": `Layer ${layer}: close or open its heads`, onclick: () => toggleLayer(layer) });
    const units = rowOf(layer).map((unit) => {
      cells[unit] = make("button", { class: unit < heads() ? "unit" : "unit mlp", "data-unit": unit, tabindex: -1 }, make("i"));
      return make("span", { role: "gridcell" }, cells[unit]);
    });
    return make("div", { role: "row" }, make("span", { role: "rowheader" }, name), ...units);
  });
  grid.replaceChildren(top, ...rows);
  focused = state.head ? unitOf(...state.head) : unitOf(layers - 1, 0);
  cells[focused].tabIndex = 0;
}

function paint() {
  if (!cells.length || cells.length !== state.mask.length) return;
  const found = colouring();
  const all = found ? tones(found) : [];
  const flips = new Set(found?.flips ?? []);
  const picked = state.head ? unitOf(...state.head) : -1;
  cells.forEach((cell, unit) => {
    const open = dragging ? dragging.mask[unit] === "1" : isOpen(unit);
    const layer = layerOf(unit);
    const name = unit < heads() ? `Layer ${layer}, head ${unit % model.units.heads}` : `Layer ${layer}, MLP`;
    const told = found ? `${found.says}: ${inWords(found, unit)}` : "";
    cell.classList.toggle("closed", !open);
    cell.classList.toggle("picked", unit === picked);
    cell.classList.toggle("flips", flips.has(unit));
    cell.classList.toggle("unknown", Boolean(found) && all[unit] === null);
    if (all[unit]) cell.style.setProperty("--tone", all[unit]);
    else cell.style.removeProperty("--tone");
    cell.setAttribute("aria-pressed", open);
    const says = [`${name}, ${open ? "open" : "closed"}`, told, flips.has(unit) ? "A click flips the answer" : ""];
    cell.setAttribute("aria-label", says.filter(Boolean).join(". "));
    cell.title = `${nameOf(unit)} ${open ? "open" : "closed"}${told ? `\n${told}` : ""}`;
  });
  byId("undo").disabled = !canUndo();
  byId("redo").disabled = !canRedo();
}

const pick = (unit) => (headOf(unit) ? { head: headOf(unit) } : {});

export function toggle(unit) {
  setMask(toggled(state.mask, unit), pick(unit));
  speak(`${nameOf(unit)} ${isOpen(unit) ? "open" : "closed"}`);
}

// all heads of a layer are closed if any is open
function toggleLayer(layer) {
  const units = rowOf(layer).slice(0, -1);
  const value = units.some(isOpen) ? "0" : "1";
  const mask = [...state.mask];
  for (const unit of units) mask[unit] = value;
  setMask(mask.join(""));
  speak(`${many(units.length, "head")} of layer ${layer} ${value === "1" ? "open" : "closed"}`);
}

function focus(unit) {
  cells[focused].tabIndex = -1;
  focused = unit;
  cells[unit].tabIndex = 0;
  cells[unit].focus();
  change(pick(unit));
}

const unitAt = (target) => (target?.closest?.(".unit") ? Number(target.closest(".unit").dataset.unit) : null);

grid.addEventListener("pointerdown", (event) => {
  const unit = unitAt(event.target);
  if (unit === null || event.button !== 0) return;
  event.preventDefault();
  focus(unit);
  if (event.shiftKey) return toggleLayer(layerOf(unit));
  if (looking()) return;
  dragging = { value: isOpen(unit) ? "0" : "1", mask: [...state.mask], id: event.pointerId };
  if (event.pointerType !== "touch") grid.setPointerCapture(event.pointerId);
  passOver(unit);
});
function passOver(unit) {
  if (dragging.mask[unit] === dragging.value) return;
  dragging.mask[unit] = dragging.value;
  dragging.last = unit;
  paint();
}
grid.addEventListener("pointermove", (event) => {
  if (!dragging) return;
  const unit = unitAt(document.elementFromPoint(event.clientX, event.clientY));
  if (unit !== null) passOver(unit);
});
function finish(event) {
  if (!dragging) return;
  const { mask, last } = dragging;
  dragging = null;
  if (event.type === "pointercancel") return paint(); // a finger that scrolls
  setMask(mask.join(""), pick(last));
  speak(`${nameOf(last)} ${isOpen(last) ? "open" : "closed"}`);
}
for (const end of ["pointerup", "pointercancel"]) grid.addEventListener(end, finish);
// of a keyboard or a screen reader: a pointer's clicks have been dealt with
grid.addEventListener("click", (event) => {
  const unit = unitAt(event.target);
  if (unit === null || event.detail !== 0) return;
  if (event.shiftKey) toggleLayer(layerOf(unit));
  else if (looking()) focus(unit);
  else toggle(unit);
});

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] };
grid.addEventListener("keydown", (event) => {
  const unit = unitAt(event.target);
  if (unit === null) return;
  const [layer, place] = [layerOf(unit), rowOf(layerOf(unit)).indexOf(unit)];
  const last = model.units.heads;
  let next = null;
  if (STEPS[event.key]) {
    const [up, right] = STEPS[event.key];
    next = [Math.min(Math.max(layer + up, 0), model.units.layers - 1), Math.min(Math.max(place + right, 0), last)];
  } else if (event.key === "Home") next = [layer, 0];
  else if (event.key === "End") next = [layer, last];
  else if (event.key === " " && event.shiftKey) toggleLayer(layer);
  else if (event.key === " " || event.key === "Enter") toggle(unit);
  else return;
  event.preventDefault();
  if (next) focus(rowOf(next[0])[next[1]]);
});

byId("undo").addEventListener("click", undo);
byId("redo").addEventListener("click", redo);
document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.target.matches("textarea, input:not([type=radio], [type=range])")) return;
  const key = event.key.toLowerCase();
  if (key === "z" || key === "y") {
    event.preventDefault();
    if (key === "y" || event.shiftKey) redo();
    else undo();
  }
});

on(["model"], () => {
  if (cells.length !== state.mask.length || shape !== model.units.heads) build();
});
on(["mask", "head", "model"], paint);
onColours(paint);

// Keep what is open: a file, a link, Python, a picture.
import { ask, Refused } from "./api.js";
import { colouring, legend, tones } from "./colour.js";
import { byId, draw, many } from "./dom.js";
import { remember } from "./presets.js";
import { address, asked, heads, isOpen, layerOf, model, state, texts } from "./state.js";

const say = (text) => (byId("kept").textContent = text);

async function telling(work) {
  try {
    await work();
  } catch (problem) {
    if (!(problem instanceof Refused)) throw problem;
    say(problem.message);
  }
}

async function copy(text, done) {
  const place = byId("copied");
  place.hidden = true;
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    place.hidden = false;
    place.value = text;
    place.select();
    say("This browser does not let a page copy: it is below, marked.");
  }
  return place;
}

byId("save").addEventListener("click", () => telling(async () => {
  const name = byId("name").value.trim();
  if (!name) {
    byId("name").focus();
    return say("Give it a name first.");
  }
  const found = await ask("save", { place: state.place, mask: state.mask, name });
  if (!found) return;
  remember(found.preset);
  byId("name").value = "";
  say(`Saved as ${found.file}. A study takes it by prune: {given: {path: ${found.file.split("/")[0]}}}.`);
}));
byId("name").addEventListener("keydown", (event) => event.key === "Enter" && byId("save").click());

byId("link").addEventListener("click", () => {
  copy(location.origin + location.pathname + address(), "Link copied: it restores all that is shown, as long as this server runs at this address.");
});

byId("python").addEventListener("click", () => telling(async () => {
  const found = await ask("python", { ...asked(), ...texts() });
  if (!found) return;
  const place = await copy(found.python, "Python copied: it gives the same answer.");
  place.hidden = false;
  place.value = found.python;
}));

// ---- the picture: always on white paper

const CELL = 26;
function picture() {
  const { layers, heads: across } = model.units;
  const [left, top, step] = [44, 56, CELL + 4];
  const found = colouring();
  const all = found ? tones(found, false) : [];
  const parts = [];
  const write = (x, y, text, more = {}) => parts.push(draw("text", { x, y, fill: "#22302a", ...more, text }));
  const open = [...state.mask].filter((unit) => unit === "1").length;
  write(left, 20, `${document.title.replace(" · Corewood explore", "")}`, { "font-size": 14, "font-weight": "bold" });
  write(left, 38, `${open} of ${many(state.mask.length, "unit")} open${model.steps.length > 1 ? `, step ${state.place.step}` : ""}`, { "font-size": 11 });
  for (let unit = 0; unit < state.mask.length; unit++) {
    const [layer, mlp] = [layerOf(unit), unit >= heads()];
    const x = left + (mlp ? across * step + 10 : (unit % across) * step);
    const y = top + (layers - 1 - layer) * step;
    const tone = all[unit] ?? (found ? "#d9ded9" : "#1f5d3f");
    const width = mlp ? 2 * CELL : CELL;
    if (isOpen(unit)) parts.push(draw("rect", { x, y, width, height: CELL, rx: 4, fill: tone, stroke: "#9aa59e", "stroke-width": 0.5 }));
    else {
      parts.push(draw("rect", { x: x + 0.5, y: y + 0.5, width: width - 1, height: CELL - 1, rx: 4, fill: "none", stroke: "#9aa59e", "stroke-dasharray": "2 2" }));
      parts.push(draw("rect", { x: x + width / 2 - 4, y: y + CELL / 2 - 4, width: 8, height: 8, rx: 2, fill: found ? tone : "#9aa59e" }));
    }
  }
  for (let layer = 0; layer < layers; layer++) write(left - 10, top + (layers - 1 - layer) * step + CELL / 2 + 4, layer, { "text-anchor": "end", "font-size": 11 });
  const bottom = top + layers * step;
  for (let head = 0; head < across; head++) write(left + head * step + CELL / 2, bottom + 12, head, { "text-anchor": "middle", "font-size": 11 });
  write(left + across * step + 10 + CELL, bottom + 12, "MLP", { "text-anchor": "middle", "font-size": 11 });
  const key = legend(found, false);
  write(left, bottom + 36, key.says, { "font-size": 11 });
  let x = left;
  for (const [colour, text] of key.steps) {
    parts.push(draw("rect", { x, y: bottom + 44, width: 16, height: 12, fill: colour }));
    if (text) write(x + 20, bottom + 54, text, { "font-size": 11 });
    x += text ? 30 + 6.2 * text.length : 18;
  }
  const width = Math.max(left + across * step + 10 + 2 * CELL + 16, x + 8);
  const height = bottom + (found ? 68 : 28);
  const svg = draw("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "Helvetica, Arial, sans-serif" },
    draw("rect", { width, height, fill: "white" }), ...parts);
  return { text: new XMLSerializer().serializeToString(svg), width, height };
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say(`${name} is among your downloads.`);
}

byId("svg").addEventListener("click", () => download(new Blob([picture().text], { type: "image/svg+xml" }), "corewood-mask.svg"));
byId("png").addEventListener("click", async () => {
  const { text, width, height } = picture();
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((blob) => download(blob, "corewood-mask.png"), "image/png");
});

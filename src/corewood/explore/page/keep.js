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
  const done = "Link copied: it restores all that is shown, as long as this server runs at this address.";
  copy(location.origin + location.pathname + address(), done);
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
const [LEFT, TOP, STEP] = [44, 56, CELL + 4];
const SMALL = { "font-size": 11 };
const write = (x, y, text, more = SMALL) => draw("text", { x, y, fill: "#22302a", ...more, text });

// open: a full square; closed: a small one in a dashed frame
function unitAt(x, y, width, open, tone) {
  const frame = { x, y, width, height: CELL, rx: 4, stroke: "#9aa59e" };
  if (open) return [draw("rect", { ...frame, fill: tone, "stroke-width": 0.5 })];
  const inner = { x: x + width / 2 - 4, y: y + CELL / 2 - 4, width: 8, height: 8, rx: 2 };
  return [draw("rect", { ...frame, fill: "none", "stroke-dasharray": "2 2" }), draw("rect", { ...inner, fill: tone })];
}

function unitsOf(found) {
  const { layers, heads: across } = model.units;
  const all = found ? tones(found, false) : [];
  return [...state.mask].flatMap((_, unit) => {
    const mlp = unit >= heads();
    const x = LEFT + (mlp ? across * STEP + 10 : (unit % across) * STEP);
    const y = TOP + (layers - 1 - layerOf(unit)) * STEP;
    return unitAt(x, y, mlp ? 2 * CELL : CELL, isOpen(unit), all[unit] ?? (found ? "#d9ded9" : "#1f5d3f"));
  });
}

function namesOf(bottom) {
  const { layers, heads: across } = model.units;
  const middle = { ...SMALL, "text-anchor": "middle" };
  const rows = [...Array(layers).keys()].map((layer) =>
    write(LEFT - 10, TOP + (layers - 1 - layer) * STEP + CELL / 2 + 4, layer, { ...SMALL, "text-anchor": "end" }));
  const columns = [...Array(across).keys()].map((head) => write(LEFT + head * STEP + CELL / 2, bottom + 12, head, middle));
  return [...rows, ...columns, write(LEFT + across * STEP + 10 + CELL, bottom + 12, "MLP", middle)];
}

function picture() {
  const { layers, heads: across } = model.units;
  const [found, bottom] = [colouring(), TOP + layers * STEP];
  const open = [...state.mask].filter((unit) => unit === "1").length;
  const step = model.steps.length > 1 ? `, step ${state.place.step}` : "";
  const parts = [
    write(LEFT, 20, byId("title").textContent, { "font-size": 14, "font-weight": "bold" }),
    write(LEFT, 38, `${open} of ${many(state.mask.length, "unit")} open${step}`),
    ...unitsOf(found),
    ...namesOf(bottom),
  ];
  const { says, steps } = legend(found, false);
  parts.push(write(LEFT, bottom + 36, says));
  let x = LEFT;
  for (const [fill, text] of steps) {
    parts.push(draw("rect", { x, y: bottom + 44, width: 16, height: 12, fill }), write(x + 20, bottom + 54, text));
    x += text ? 30 + 6.2 * text.length : 18;
  }
  const width = Math.max(LEFT + across * STEP + 10 + 2 * CELL + 16, x + 8, LEFT + 8 * byId("title").textContent.length);
  const height = bottom + (found ? 68 : 28);
  const page = { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height };
  const paper = draw("rect", { width, height, fill: "white" });
  const svg = draw("svg", { ...page, "font-family": "Helvetica, Arial, sans-serif" }, paper, ...parts);
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

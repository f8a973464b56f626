// Draws every chart of the page, in the colours that the reader's system asks for, and lets a reader filter the page, sort
// tables and pick a subnetwork. vegaEmbed comes with the bundle this is put into.
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const specs = read("specs");
const darker = read("dark");
const darkness = matchMedia("(prefers-color-scheme: dark)");
const NARROW = 700; // pixels: below, panels stand one under the other
const CELL = 22; // of a grid on a narrow screen

const words = { true: "yes", false: "no" };
const asText = document.createElement("span");
const inWords = (value) => {
  asText.textContent = words[value] ?? String(value);
  return asText.innerHTML;
};
const options = {
  renderer: "svg",
  actions: { export: true, source: false, compiled: false, editor: false },
  tooltip: { sanitize: inWords },
};

const step = (width) => (width < Infinity ? CELL : Infinity);

// A spec for the page as it is: its colours, and no panel wider than a narrow window. Data stay as they are.
function fitted(part, width, key = "") {
  if (typeof part === "string") return darkness.matches ? (darker[part] ?? part) : part;
  if (typeof part === "number") return key === "width" ? Math.min(part, width) : key === "step" ? Math.min(part, step(width)) : part;
  if (Array.isArray(part)) return part.map((one) => fitted(one, width));
  if (part === null || typeof part !== "object") return part;
  const made = {};
  for (const [name, value] of Object.entries(part)) {
    const under = name === "hconcat" && width < Infinity ? "vconcat" : name;
    made[under] = name === "datasets" || name === "data" ? value : fitted(value, width, name);
  }
  return made;
}

const views = {}; // by the chart's name
function draw(name, spec) {
  const place = document.getElementById(`chart-${name}`);
  const width = innerWidth < NARROW ? Math.max(150, innerWidth - 215) : Infinity;
  views[name]?.finalize();
  const tooltip = { ...options.tooltip, ...examples.tooltipOf(place) };
  return vegaEmbed(place, fitted(spec, width), { ...options, tooltip }).then(
    ({ view, finalize }) => {
      views[name] = { finalize };
      view.addEventListener("click", (event, item) => clicked(item?.datum, event.shiftKey));
      examples.linkChart(place, view);
      place.setAttribute("data-drawn", darkness.matches ? "dark" : "light");
      mark(place);
    },
    (problem) => {
      place.textContent = `This chart could not be drawn: ${problem.message}`;
      console.error(name, problem);
    },
  );
}
const drawAll = () => Object.entries(specs).forEach(([name, spec]) => draw(name, spec));

// Picking: a click tells the whole page, and every chart and table marks what was picked. {subnetwork: null} unpicks.
// With shift, the one that was picked before stays marked: the two stand beside each other in the panel.
let picked = null;
let before = null;
const isPicked = (name) => name !== undefined && (name === picked || name === before);
const chip = document.getElementById("picked");
const pick = (detail) => document.dispatchEvent(new CustomEvent("corewood:pick", { detail }));
const unpick = () => pick({ subnetwork: null, dataset: null, case: null });

function clicked(datum, together) {
  const { subnetwork = null, dataset = null, case: of = null } = datum ?? {};
  if (subnetwork !== null) pick({ subnetwork, dataset, case: of, together });
}

function mark(place) {
  for (const shape of place.querySelectorAll(".role-mark path")) {
    const of = shape.__data__?.datum?.subnetwork; // what Vega drew it for
    if (of === undefined) continue;
    shape.classList.add("can-pick");
    shape.classList.toggle("picked", isPicked(of));
    shape.classList.toggle("beside", picked !== null && !isPicked(of));
  }
  for (const row of place.querySelectorAll("tr[data-subnetwork]")) {
    row.classList.toggle("picked", isPicked(row.dataset.subnetwork));
  }
}

document.addEventListener("corewood:pick", (event) => {
  const { subnetwork, together = false } = event.detail;
  before = together && subnetwork !== picked ? picked : null;
  picked = subnetwork;
  chip.hidden = picked === null;
  chip.textContent = `${[before, picked].filter(Boolean).join(" and ")} ×`;
  mark(document);
});
document.addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-subnetwork]");
  if (row) pick({ subnetwork: row.dataset.subnetwork, dataset: null, case: null, together: event.shiftKey });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && picked !== null) unpick();
});
chip.addEventListener("click", unpick);

// Contents close when something is chosen in them.
const contents = document.querySelector("details.contents");
contents.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  contents.open = false;
  if (document.getElementById(link.hash.slice(1))?.closest(".out")) {
    filter.value = ""; // what was chosen must be there
    filter.dispatchEvent(new Event("input"));
  }
});

// Filtering: by the titles of charts and tables and of the parts they stand in.
const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const wanted = filter.value.trim().toLowerCase();
  const has = (text) => text.toLowerCase().includes(wanted);
  let any = false;
  let part = null; // the first chart stands above all parts
  for (const element of document.querySelectorAll("header > section, main > h2.part, main > section")) {
    if (element.matches("h2")) {
      part = element;
      part.classList.toggle("out", !has(part.textContent));
      continue;
    }
    const title = element.querySelector("h3")?.textContent ?? "";
    const found = has(title) || (part !== null && has(part.textContent));
    element.classList.toggle("out", !found);
    if (found) part?.classList.remove("out");
    any ||= found;
  }
  document.querySelector(".nothing").hidden = any;
});

const chosen = document.getElementById("model");
if (chosen) {
  const show = () => {
    for (const part of document.querySelectorAll("[data-model]")) part.hidden = part.dataset.model !== chosen.value;
  };
  chosen.addEventListener("change", show);
  show();
}

// The number that a cell begins with, or null: 3.5 of "3.5 (2.1 to 4.0)", with a minus sign that is one.
function leading(text) {
  const found = /^[+\u2212-]?(\d[\d,]*\.?\d*|\.\d+)(e[+-]?\d+)?/i.exec(text);
  return found ? Number(found[0].replace("\u2212", "-").replaceAll(",", "")) : null;
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = table.tHead.querySelectorAll("th");
  for (const head of heads) head.tabIndex = 0;
  table.tHead.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.target.closest("th").click();
  });
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    const down = !head.classList.contains("down");
    for (const other of heads) {
      other.classList.remove("up", "down");
      other.removeAttribute("aria-sort");
    }
    head.classList.add(down ? "down" : "up");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[head.cellIndex].dataset.value;
    const order = (a, b) => {
      const [one, other] = [a, b].map((row) => leading(value(row)));
      if (one !== null && other !== null && one !== other) return down ? other - one : one - other;
      if ((one === null) !== (other === null)) return one === null ? 1 : -1; // what has no number stands last
      const text = value(a).localeCompare(value(b), "en", { numeric: true });
      return down ? -text : text;
    };
    const rows = [...body.rows].filter((row) => !row.hasAttribute("data-fixed"));
    body.append(...rows.sort(order));
  });
}

drawAll();
darkness.addEventListener("change", drawAll);

// Draws every chart of the page, and lets tables be sorted. vegaEmbed comes with the bundle this is put into.
const specs = JSON.parse(document.getElementById("specs").textContent);
const options = { renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false } };

for (const [name, spec] of Object.entries(specs)) {
  const place = document.getElementById(`chart-${name}`);
  vegaEmbed(place, spec, { ...options, tooltip: examples.tooltipOf(place) }).then(
    ({ view }) => {
      examples.linkChart(place, view);
      place.setAttribute("data-drawn", "yes");
    },
    (problem) => {
      place.textContent = `This chart could not be drawn: ${problem.message}`;
      console.error(name, problem);
    },
  );
}

const chosen = document.getElementById("model");
if (chosen) {
  const show = () => {
    for (const part of document.querySelectorAll("[data-model]")) part.hidden = part.dataset.model !== chosen.value;
  };
  chosen.addEventListener("change", show);
  show();
}

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    const down = !head.classList.contains("down");
    for (const other of table.tHead.querySelectorAll("th")) other.classList.remove("up", "down");
    head.classList.add(down ? "down" : "up");
    const value = (row) => row.cells[head.cellIndex].dataset.value;
    const order = (a, b) => {
      const difference = Number(value(a)) - Number(value(b));
      return Number.isNaN(difference) ? value(a).localeCompare(value(b), "en", { numeric: true }) : difference;
    };
    body.append(...[...body.rows].sort((a, b) => (down ? -order(a, b) : order(a, b))));
  });
}

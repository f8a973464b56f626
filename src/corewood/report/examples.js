// The examples behind dots, cells and rows: a panel beside the page, and one example of each case beside its name.
// What the data hold is said in report/examples.py, `packed`.
const examples = (() => {
  const behind = JSON.parse(document.getElementById("examples-data").textContent);
  const FULL = "full";
  const FIRST_SHOWN = 100;

  function modelOf(element) {
    const label = element.closest("[data-model]")?.dataset.model ?? "";
    const told = behind.told?.[behind.models[label]];
    return told && { ...told, task: behind.tasks[told.task] };
  }

  const spoken = (name) => (name === FULL ? "the full model" : name);

  // ---- one example beside the name of a case

  // name of a case -> the example that stands for it; of what is about several tasks, where they do not contradict each other
  function specimensOf(element) {
    const model = modelOf(element);
    const found = new Map();
    for (const task of model ? [model.task] : Object.values(behind.tasks ?? {})) {
      for (const [name, place] of Object.entries(task.names)) {
        const text = task.choices[place][1].length === 1 ? specimen(task, task.choices[place][1][0]) : "";
        found.set(name, found.has(name) && found.get(name) !== text ? "" : text);
      }
    }
    return found;
  }

  function specimen(task, place) {
    const [, , gold, ...texts] = task.examples[task.cases[place][2]];
    return `${texts.map((text) => `“${text}”`).join(" \u2014 ")} Right answer: ${task.labels[gold]}`;
  }

  // how vega-tooltip writes what a pointer shows, with the example below where it names a case
  function tooltipOf(place) {
    const specimens = specimensOf(place);
    const formatTooltip = (value, clean) => {
      if (typeof value !== "object" || value === null) return clean(String(value));
      const { title, ...rest } = value;
      const example = specimens.get(String(rest.case ?? rest.where));
      const cells = (key, text) => `<td class="key">${clean(key)}</td><td class="value">${clean(String(text))}</td>`;
      const rows = Object.entries(rest).map((pair) => `<tr>${cells(...pair)}</tr>`);
      const below = example ? `<p class="specimen">${clean(example)}</p>` : "";
      return `${title ? `<h2>${clean(String(title))}</h2>` : ""}<table>${rows.join("")}</table>${below}`;
    };
    return { formatTooltip };
  }

  function nameCases(root, selector, nameOf, put) {
    const specimens = specimensOf(root);
    for (const element of root.querySelectorAll(selector)) {
      const example = specimens.get(nameOf(element));
      if (example) put(element, example);
    }
  }

  // names on axes and in legends; those too long for their place are cut there, and whole in what Vega keeps beside them
  function nameCasesOfChart(place) {
    const nameOf = (text) => String(text.__data__?.datum?.value ?? text.textContent);
    nameCases(place, ".role-axis-label text, .role-legend-label text, .mark-text.role-mark text", nameOf, (text, example) => {
      const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
      title.textContent = example;
      text.append(title);
      text.classList.add("of-case");
    });
  }

  function nameCasesOfPage() {
    for (const table of document.querySelectorAll("table.sortable")) {
      const column = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === "case");
      if (column < 0 || table.closest("section")?.querySelector("h3")?.textContent === "What the cases are") continue;
      nameCases(table, `td:nth-child(${column + 1})`, (cell) => cell.textContent, (cell, example) => (cell.title = example));
    }
    const specimens = specimensOf(document.body);
    for (const line of document.querySelectorAll(".headline, .tile small, .finding li, .sure li")) {
      for (const part of line.textContent.split(/“([^”]+)”/).filter((_, place) => place % 2)) {
        if (specimens.get(part)) wrap(line, part, specimens.get(part));
      }
    }
  }

  function wrap(line, name, example) {
    for (const node of [...line.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE)) {
      const start = node.data.indexOf(`“${name}”`);
      if (start < 0) continue;
      const named = node.splitText(start + 1);
      named.splitText(name.length);
      const mark = document.createElement("abbr");
      mark.title = example;
      named.replaceWith(mark);
      mark.append(named);
    }
  }

  // ---- the panel

  const panel = document.createElement("aside");
  panel.id = "examples-panel";
  panel.hidden = true;
  panel.setAttribute("role", "dialog");
  panel.setAttribute("aria-labelledby", "examples-title");
  panel.innerHTML = `
    <div class="top">
      <h2 id="examples-title" tabindex="-1"></h2>
      <button class="close" aria-label="Close the examples">✕</button>
    </div>
    <div class="choices">
      <label>Subnetwork <select name="one"></select></label>
      <label>beside (or hold shift and click a dot) <select name="other"></select></label>
      <label>Examples <select name="which"></select></label>
      <label>Case <select name="choice"></select></label>
      <label>Text <input type="search" name="text" placeholder="words in it"></label>
      <button class="copy">Copy as CSV</button>
    </div>
    <p class="count" role="status"></p>
    <textarea class="csv" readonly hidden aria-label="The examples as CSV"></textarea>
    <ol></ol>
    <button class="more" hidden></button>`;
  const field = (name) => panel.querySelector(`[name="${name}"]`);
  let open; // { model, from }: whose examples are shown, and where the focus was before
  let whole = false;

  const KINDS = {
    differ: { holds: (e) => e.one.answer !== e.other.answer, says: () => "all that differ", place: 0 },
    lost: { holds: (e) => e.other.right && !e.one.right, says: (_, other) => `lost: only ${other} is right`, place: 1 },
    gained: { holds: (e) => e.one.right && !e.other.right, says: (one) => `gained: only ${one} is right`, place: 2 },
    wrong: { holds: (e) => !e.one.right, says: (one) => `all that ${one} gets wrong`, place: 3 },
  };

  // the examples of a case that have a text in them, with what the two say, the widest gaps first
  function compared() {
    const { said, task } = open.model;
    const [one, other] = [field("one").value, field("other").value];
    const cases = field("choice").value && new Set(task.choices[field("choice").value][1]);
    const words = field("text").value.toLowerCase();
    const answer = (who, place, gold) => {
      const [answers, chances, golds] = said[who];
      return { answer: answers[place], chance: chances[place], gold: golds[place], right: answers[place] === gold };
    };
    const found = [];
    task.examples.forEach(([place, number, gold, ...texts], row) => {
      if (cases && !cases.has(place)) return;
      if (words && !texts.some((text) => text.toLowerCase().includes(words))) return;
      const [a, b, full] = [one, other, FULL].map((who) => answer(who, row, gold));
      found.push({ place, number, gold, texts, one: a, other: b, full, gap: Math.abs(a.gold - b.gold) });
    });
    return found.sort((a, b) => b.gap - a.gap);
  }

  function options(select, entries, value) {
    select.replaceChildren(...entries.map(([key, text]) => new Option(text, key)));
    select.value = value;
  }

  // which subnetworks can be chosen: never one beside itself
  function fillWho(one, other) {
    const names = Object.keys(open.model.said);
    options(field("one"), names.map((name) => [name, spoken(name)]), one);
    options(field("other"), names.filter((name) => name !== one || name === FULL).map((name) => [name, spoken(name)]), other);
  }

  // of one subnetwork what it lost; of two, where they disagree
  function fillWhich() {
    const [one, other] = [field("one").value, field("other").value];
    const first = one === FULL ? "wrong" : other === FULL ? "lost" : "differ";
    options(field("which"), Object.keys(KINDS).map((kind) => [kind, kind]), first);
  }

  function show() {
    const [one, other] = [field("one").value, field("other").value];
    const every = compared();
    const kinds = one === other ? ["wrong"] : Object.keys(KINDS);
    const which = kinds.includes(field("which").value) ? field("which").value : kinds[0];
    const count = (kind) => total(kind) ?? every.filter(KINDS[kind].holds).length;
    options(field("which"), kinds.map((k) => [k, `${KINDS[k].says(spoken(one), spoken(other))} (${count(k)})`]), which);
    const rows = every.filter(KINDS[which].holds);
    panel.querySelector("h2").textContent = one === other ? spoken(one) : `${spoken(one)} beside ${spoken(other)}`;
    panel.querySelector(".count").textContent = counted(rows, which);
    panel.querySelector(".csv").hidden = true;
    const some = whole ? rows : rows.slice(0, FIRST_SHOWN);
    panel.querySelector("ol").replaceChildren(...some.map((row) => item(row, one, other)));
    const more = panel.querySelector(".more");
    more.hidden = some.length === rows.length;
    more.textContent = `Show all ${rows.length}`;
    return rows;
  }

  // how many there are of a kind, on this page or not; null where that is not known
  function total(which) {
    if (field("text").value || field("other").value !== FULL) return null;
    const { task, changes } = open.model;
    const cases = field("choice").value ? task.choices[field("choice").value][1] : [...task.cases.keys()];
    return cases.reduce((sum, place) => sum + changes[field("one").value][place][KINDS[which].place], 0);
  }

  // how many of those that there are stand on this page
  function counted(rows, which) {
    const there = total(which);
    const examples = (number) => `${number} ${number === 1 ? "example" : "examples"}`;
    const limit = `This page has up to ${behind.longest} of each case, those that tell subnetworks apart.`;
    if (there === null) return `${examples(rows.length)}. ${limit}`;
    return there === rows.length ? `${examples(there)}: all there are.` : `${rows.length} of ${examples(there)}. ${limit}`;
  }

  function item({ place, number, gold, texts, one, other, full }, name, beside) {
    const { task } = open.model;
    const made = document.createElement("li");
    const add = (parent, tag, text, kind = "") => {
      const element = document.createElement(tag);
      element.textContent = text;
      element.className = kind;
      parent.append(element);
      return element;
    };
    const [dataset, called] = task.cases[place];
    add(made, "p", `${called === "all" ? dataset : `${called} \u00b7 ${dataset}`} ${number}`, "where");
    for (const text of texts) add(made, "p", text, "text");
    const list = add(made, "dl", "");
    const line = (who, answer, kind) => {
      const part = add(list, "div", "", kind);
      add(part, "dt", who);
      add(part, "dd", answer);
    };
    line("right answer", task.labels[gold], "gold");
    const people = new Map([[FULL, full], [beside, other], [name, one]]);
    for (const [who, { answer, chance, right }] of people) {
      line(spoken(who), `${right ? "\u2713" : "\u2717"} ${task.labels[answer]} ${chance} %`, right ? "right" : "wrong");
    }
    return made;
  }

  // the columns of outcome.examples
  function asCsv(rows) {
    const { task } = open.model;
    const three = ![FULL, field("one").value].includes(field("other").value);
    const pairs = rows.some((row) => row.texts.length > 1);
    const plain = (value) => (/^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(value) ? `'${value}` : value); // no formula: cells.py
    const quote = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    const said = ({ answer, chance }) => [task.labels[answer], String(chance / 100)];
    const kind = ({ one, full }) => (one.right ? (full.right ? "right" : "gained") : full.right ? "lost" : "wrong");
    const columns = ["dataset", "example", "first", ...(pairs ? ["second"] : []), "case", "gold", "full", "full_p"];
    const lines = [[...columns, "answer", "answer_p", ...(three ? ["other", "other_p"] : []), "which"]];
    for (const row of rows) {
      const [dataset, called] = task.cases[row.place];
      const texts = pairs ? [row.texts[0], row.texts[1] ?? ""] : row.texts;
      const facts = [dataset, String(row.number), ...texts, called, task.labels[row.gold], ...said(row.full), ...said(row.one)];
      lines.push([...facts, ...(three ? said(row.other) : []), kind(row)]);
    }
    return lines.map((line) => line.map(plain).map(quote).join(",")).join("\n") + "\n";
  }

  // copied or, where the browser does not let a page do that, there to be copied by hand
  async function copyRows() {
    const text = asCsv(show());
    const button = panel.querySelector(".copy");
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy as CSV"), 1500);
    } catch {
      const place = panel.querySelector(".csv");
      place.hidden = false;
      place.value = text;
      place.select();
    }
  }

  function showExamples(model, one, { other = FULL, name = "", from = document.activeElement } = {}) {
    open = { model, from: panel.hidden ? from : open.from };
    whole = false;
    fillWho(one, other);
    const { task } = model;
    const choices = task.choices.map(([called], place) => [place, called]);
    options(field("choice"), [["", "every case"], ...choices], task.names[name] ?? "");
    fillWhich();
    field("text").value = "";
    panel.hidden = false;
    show();
    panel.scrollTop = 0;
    panel.querySelector("h2").focus();
  }

  function closeExamples() {
    panel.hidden = true;
    open.from?.focus();
  }

  // a click picks a subnetwork; with shift, the one to put beside it
  function pick(model, name, event, more) {
    const first = field("one").value;
    const second = event.shiftKey && !panel.hidden && open.model.said === model.said && name !== first && first !== FULL;
    if (second) showExamples(model, first, { ...more, other: name });
    else showExamples(model, name, more);
  }

  // what Vega drew elements for, where that is a subnetwork
  function subnetworksOf(elements, model) {
    const data = [...elements].map((element) => element.__data__?.datum);
    return data.filter((datum) => Object.hasOwn(model.said, datum?.subnetwork));
  }

  // under a pointer; dots may lie below others, or below a tick
  const below = (event, model) => subnetworksOf(document.elementsFromPoint(event.clientX, event.clientY), model);

  function linkChart(place, view) {
    nameCasesOfChart(place);
    const model = modelOf(place);
    const [first] = model ? subnetworksOf(place.querySelectorAll("svg.marks path"), model) : [];
    if (!first) return;
    place.tabIndex = -1;
    place.closest("section").querySelector(".who")?.remove(); // of a drawing before, in other colours
    const button = document.createElement("button");
    button.className = "who";
    button.textContent = "Examples (or click a subnetwork)";
    button.addEventListener("click", (event) => pick(model, first.subnetwork, event, { from: button }));
    place.closest("section").querySelector(".links").append(" ", button);
    view.addEventListener("mousemove", (event) => (place.style.cursor = below(event, model).length ? "pointer" : ""));
    view.addEventListener("click", (event) => {
      const found = below(event, model);
      if (!found.length) return;
      // a second click on the same place goes on to the next one that lies there
      const before = panel.hidden ? -1 : found.findIndex((datum) => datum.subnetwork === field("one").value);
      const { subnetwork, where } = found[(before + 1) % found.length];
      pick(model, subnetwork, event, { name: where, from: place });
    });
  }

  // the names of subnetworks in tables are buttons
  function linkTables() {
    for (const table of document.querySelectorAll("table.sortable")) {
      const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
      const model = modelOf(table);
      const [who, what] = [heads.indexOf("subnetwork"), heads.indexOf("case")];
      if (!model || who < 0) continue;
      for (const row of table.tBodies[0].rows) {
        const cell = row.cells[who];
        const name = cell.textContent;
        if (!Object.hasOwn(model.said, name)) continue;
        const button = document.createElement("button");
        button.className = "who";
        button.textContent = name;
        button.setAttribute("aria-label", `Examples behind ${spoken(name)}`);
        cell.replaceChildren(button);
        row.classList.add("linked");
        const more = { name: row.cells[what]?.textContent, from: button };
        row.addEventListener("click", (event) => pick(model, name, event, more));
      }
    }
  }

  if (behind.told) {
    document.body.append(panel);
    for (const name of ["one", "other"]) {
      field(name).addEventListener("change", () => {
        const [one, other] = [field("one").value, field("other").value];
        fillWho(one, one === other || one === FULL ? FULL : other);
        fillWhich();
        show();
      });
    }
    for (const name of ["which", "choice"]) field(name).addEventListener("change", show);
    field("text").addEventListener("input", show);
    panel.querySelector(".copy").addEventListener("click", copyRows);
    panel.querySelector(".close").addEventListener("click", closeExamples);
    panel.querySelector(".more").addEventListener("click", () => {
      whole = true;
      show();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !panel.hidden) closeExamples();
    });
    document.getElementById("model")?.addEventListener("change", () => panel.hidden || closeExamples());
    linkTables();
    nameCasesOfPage();
  }

  return { tooltipOf, linkChart };
})();

// Elements. Text only ever becomes text: nothing here reads markup.
export const byId = (id) => document.getElementById(id);

function dressed(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const make = (tag, attributes = {}, ...children) => dressed(document.createElement(tag), attributes, children);

export const draw = (tag, attributes = {}, ...children) =>
  dressed(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

export function choices(select, entries, value) {
  select.replaceChildren(...entries.map(([key, text]) => new Option(text, key)));
  if (value !== undefined) select.value = value;
}

// entries by group: {group: [[value, text], ...]}
export function groups(select, grouped) {
  select.replaceChildren(
    ...Object.entries(grouped).map(([label, entries]) => {
      const options = entries.map(([key, text]) => new Option(text, key));
      return label ? make("optgroup", { label }, ...options) : options;
    }).flat(),
  );
}

export const percent = (share) => `${Math.round(100 * share)} %`;
export const sign = (change) => (change > 0 ? "+" : change < 0 ? "−" : "");
export const points = (change) => `${sign(change)}${Math.abs(Math.round(100 * change))} points`;
export const number = (change) => `${sign(change)}${Math.abs(change).toPrecision(3)}`;
export const many = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

let silence;
export function speak(text) {
  clearTimeout(silence);
  silence = setTimeout(() => (byId("spoken").textContent = text), 400); // fast clicks are told of once
}

// after a while without another call
export function later(wait, work) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), wait);
  };
}

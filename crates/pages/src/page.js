"use strict";
// Values where the pointer is, or that arrow keys reach. Curves are drawn already; without this script only that is lost.
const tip = document.getElementById("tip");

function shown(value) {
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(4) : String(Number(value.toPrecision(5)));
}

// The index of the number that is nearest to `at` in a sorted list.
function nearest(list, at) {
  let [low, high] = [0, list.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < at) low = middle + 1; else high = middle;
  }
  return low > 0 && at - list[low - 1] <= list[low] - at ? low - 1 : low;
}

function element(kind, name, parent) {
  const made = document.createElement(kind);
  made.className = name;
  parent.append(made);
  return made;
}

for (const figure of document.querySelectorAll("figure[data-plot]")) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const field = figure.querySelector(".field");
  const series = data.series.filter((one) => one.y.length > 0);
  if (series.length === 0) continue;
  const steps = data.steps || [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
  const [left, right] = data.x, [bottom, top] = data.y;
  const across = (x) => 100 * (x - left) / (right - left);
  const down = (y) => 100 * (1 - ((data.log ? Math.log10(y) : y) - bottom) / (top - bottom));
  let added = [], at = -1;

  function hide() {
    added.forEach((one) => one.remove());
    added = [];
    tip.hidden = true;
    at = -1;
  }

  function row(name, value) {
    const line = element("div", "", tip);
    element("span", "", line).textContent = name;
    element("span", "", line).textContent = value;
  }

  function show(index) {
    hide();
    at = index;
    const step = steps[index];
    tip.replaceChildren();
    element("b", "", tip).textContent = data.names ? data.names[index] : `${data.along} ${shown(step)}`;
    if (data.totals) row(`${data.along} ${step}`, data.totals[index]);
    for (const one of data.names ? [...series].reverse() : series) {
      const own = data.names ? index : nearest(one.x, step);
      const x = data.names ? step : one.x[own];
      const where = data.names || x === step ? "" : ` (at ${shown(x)})`;
      const unit = data.unit ? ` ${data.unit}` : "";
      row((one.name || data.along) + where, one.shown ? one.shown[own] : shown(one.y[own]) + unit);
      if (data.names) continue;
      const spot = element("i", `spot ${one.colour}`, field);
      spot.style.left = `${across(x)}%`;
      spot.style.top = `${down(one.y[own])}%`;
      added.push(spot);
    }
    const rule = element("i", "rule", field);
    rule.style.left = `${across(step)}%`;
    added.push(rule);
    tip.hidden = false;
    const box = field.getBoundingClientRect(), x = box.left + box.width * across(step) / 100;
    const beside = x + 14 + tip.offsetWidth < innerWidth ? x + 14 : x - 14 - tip.offsetWidth;
    tip.style.left = `${Math.max(8, Math.min(beside, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(box.top + 8, innerHeight - tip.offsetHeight - 8))}px`;
  }

  field.addEventListener("pointermove", (event) => {
    const box = field.getBoundingClientRect();
    show(nearest(steps, left + (right - left) * (event.clientX - box.left) / box.width));
  });
  field.addEventListener("pointerleave", hide);
  field.addEventListener("blur", hide);
  field.addEventListener("keydown", (event) => {
    const jump = Math.max(1, Math.round(steps.length / 40));
    const moves = { ArrowLeft: at - jump, ArrowRight: at + jump, Home: 0, End: steps.length - 1 };
    if (event.key === "Escape") hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(Math.max(0, Math.min(steps.length - 1, moves[event.key])));
  });
}

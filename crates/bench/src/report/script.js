"use strict";
// Shows one run, or all; each table can be sorted by a column.
const runs = [...document.querySelectorAll("section.run")];
const choice = document.getElementById("runs");
const names = ["all runs", ...runs.map((run) => run.dataset.title)];
names.forEach((name, index) => choice.add(new Option(name, index)));
const show = () => {
  const chosen = Number(choice.value);
  runs.forEach((run, index) => { run.hidden = chosen !== 0 && chosen !== index + 1; });
};
choice.addEventListener("change", show);
if (runs.length > 3) { choice.value = 1; }
show();

const units = { "ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9 };
const number = (cell) => {
  const [value, unit] = cell.innerText.split("\n")[0].replace("/s", "").split(" ");
  return parseFloat(value) * (units[unit] ?? 1);
};
document.querySelectorAll("th.n").forEach((head) => {
  head.style.cursor = "pointer";
  head.title = "sort";
  head.addEventListener("click", () => {
    const rows = [...head.closest("table").rows].slice(1);
    const by = (row) => number(row.cells[head.cellIndex]);
    const order = head.dataset.order === "up" ? -1 : 1;
    head.dataset.order = order === 1 ? "up" : "down";
    rows.sort((a, b) => order * (by(a) - by(b))).forEach((row) => row.parentNode.append(row));
  });
});

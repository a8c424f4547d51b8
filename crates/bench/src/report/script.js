"use strict";
// Shows one run, or all; each table can be sorted by a column; a chart of seconds says its figures
// under the pointer.
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

// Of the chart: its width, and what lies left and right of the axis of time.
const [WIDE, LEFT, RIGHT] = [960, 64, 24];
const millis = (nanos) => `${(nanos / 1e6).toFixed(2)} ms`;
document.querySelectorAll("figure[data-rows]").forEach((figure) => {
  const rows = JSON.parse(figure.dataset.rows);
  const caption = document.createElement("figcaption");
  caption.className = "small";
  caption.textContent = "\u00a0";
  figure.append(caption);
  figure.querySelector("svg").addEventListener("pointermove", (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const x = (event.clientX - box.left) * WIDE / box.width;
    const second = Math.floor((x - LEFT) / (WIDE - LEFT - RIGHT) * Number(figure.dataset.end));
    const row = rows.find((one) => one[0] === second);
    caption.textContent = row === undefined ? "\u00a0" : `second ${row[0]}: ${row[1]} answered`
      + `, failed: ${row[2] || "none"}, p50 ${millis(row[3])}, p99 ${millis(row[4])}`;
  });
});

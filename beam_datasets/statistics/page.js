"use strict";
// Sorts tables, switches bars to a logarithmic scale, filters rows, and shows how far something is that takes time.
const number = (text) => Number(text.replace(/[,~<\u00a0]/g, "").replace(/(\d)(?: .*|\D)$/, "$1"));
for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.tHead.querySelectorAll("th")) {
    if (!head.textContent.trim()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.ariaSort ? head.ariaSort === "ascending" : head.classList.contains("number");
      for (const other of table.tHead.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => {
        const cell = row.cells[head.cellIndex];
        return cell ? cell.dataset.value ?? cell.textContent.trim() : "";
      };
      const compare = (a, b) => {
        const [x, y, texts] = [number(a), number(b), a.localeCompare(b, "en", { numeric: true })];
        return Number.isNaN(x) || Number.isNaN(y) ? texts : x - y || Math.sign(x) * texts;  // integers beyond 2^53
      };
      const rows = [...table.tBodies[0].rows].sort((a, b) => compare(value(a), value(b)));
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
    });
  }
}
const log = document.getElementById("log");
if (log && document.querySelector("svg rect")) {
  log.hidden = false;
  const scaled = (part) => Math.max(100 + 20 * Math.log10(part / 100), 1);  // five decades
  log.firstElementChild.addEventListener("change", (event) => {
    for (const bar of document.querySelectorAll(".plot rect, .bars rect")) {
      const side = bar.closest(".plot") ? "height" : "width";
      bar.dataset.linear ??= parseFloat(bar.getAttribute(side));
      const size = event.target.checked ? scaled(Number(bar.dataset.linear)) : Number(bar.dataset.linear);
      bar.setAttribute(side, side === "width" ? `${size}%` : size);
      if (side === "height") bar.setAttribute("y", 100 - size);
    }
  });
}
for (const box of document.querySelectorAll("[data-filter]")) {
  const rows = document.getElementById(box.dataset.filter).tBodies[0].rows;
  const filter = () => {
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(box.value.toLowerCase());
  };
  box.addEventListener("input", filter);
  filter();
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}
// What takes time is asked for again and again, and its progress shown; the page is replaced when it is ready.
const waiting = document.querySelector("[data-next]");
const ask = async () => {
  const url = waiting.dataset.next;
  if (!url) return;  // stopped
  const answer = await fetch(url, { headers: { "X-Poll": "1" } }).catch(() => null);
  const page = answer?.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
  const now = page && page.querySelector("[data-next]");
  if (!waiting.dataset.next) return;  // stopped
  const edited = [...document.querySelectorAll("form input")].some((input) => input.value !== input.defaultValue);
  if (!now && edited) return;  // the link goes on; what was typed stays
  if (!now) return location.replace(url);
  waiting.firstElementChild.replaceWith(now.firstElementChild);
  waiting.dataset.next = now.dataset.next;
  setTimeout(ask, 200);
};
if (waiting) {
  ask();
  for (const stop of waiting.querySelectorAll("button")) {
    stop.hidden = false;
    stop.addEventListener("click", () => {
      waiting.removeAttribute("data-next");
      stop.remove();
    });
  }
}

"use strict";
for (const box of document.querySelectorAll("[data-filter]")) {
  const rows = document.getElementById(box.dataset.filter).tBodies[0].rows;
  box.addEventListener("input", () => {
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(box.value.toLowerCase());
  });
}
const waiting = document.querySelector("[data-reload]");
if (waiting) setTimeout(() => location.reload(), Number(waiting.dataset.reload));

// browser_report.bats appends this script to a copy of a report. It uses the page as a reader would, and records the results.
"use strict";
(() => {
  const wrong = [], seen = { plots: 0, hovers: 0, bars: 0 };
  const all = (s, from = document) => [...from.querySelectorAll(s)];
  const check = (ok, text) => { if (!ok) wrong.push(text); };
  const rows = (id) => document.getElementById("data-" + id).textContent.trim().split("\n").length - 1;
  const tip = document.getElementById("tip"), shown = (e) => getComputedStyle(e).display !== "none";
  const at = (e, kind, x, y) => e.dispatchEvent(new PointerEvent(kind, { clientX: x, clientY: y, bubbles: true }));

  all("details").forEach((d) => { d.open = true; });
  all("figure > [id^=data-]").forEach((d) => check(all(`svg[data-f="${d.id.slice(5)}"]`).length > 0, `${d.id} is not drawn`));

  // every plot has its points, and shows their values
  const inspect = (svg) => {
    const lines = all(".line", svg), box = svg.getBoundingClientRect();
    let points = 0;
    lines.forEach((line) => {
      const n = (line.getAttribute("d").match(/[ML]/g) || []).length, b = line.getBBox();
      check(n > 0, `${svg.dataset.f}: a line has no points`);
      check(b.x >= 0 && b.y >= 0 && b.x + b.width <= 521 && b.y + b.height <= 301, `${svg.dataset.f}: a line leaves the plot`);
      points += n;
    });
    check(points === rows(svg.dataset.f), `${svg.dataset.f}: ${points} points of ${rows(svg.dataset.f)}`);
    check(box.width > 100, `${svg.dataset.f} is ${box.width} wide`);
    at(svg, "pointermove", box.left + box.width / 2, box.top + box.height / 2);
    check(shown(tip) && tip.textContent.length > 3 && all(".hover .at", svg).length > 0, `${svg.dataset.f}: no value under the mouse`);
    check(!/NaN|undefined|null/.test(tip.textContent), `${svg.dataset.f} says ${tip.textContent}`);
    at(svg, "pointerleave", 0, 0);
    check(!shown(tip) && all(".hover", svg).length === 0, `${svg.dataset.f}: the value stays`);
    seen.plots++;
  };
  for (const axis of [0, 1, 2]) {
    document.getElementById("x" + axis).click();
    const now = all(".choice svg").filter(shown);
    check(now.length > 0 && now.every((s) => +s.dataset.x === axis), `the axis ${axis} does not show its plots`);
    now.forEach(inspect);
  }
  all("svg[data-xs]").filter((s) => !s.closest(".choice")).forEach(inspect);
  all("svg .bar").forEach((bar) => {
    const b = bar.getBoundingClientRect();
    at(bar, "pointermove", b.left, b.top);
    check(shown(tip) && tip.textContent.includes("%"), "a bar says nothing");
    at(bar, "pointerleave", 0, 0);
    seen.bars++;
  });

  // arrow keys move along a line
  const first = all("svg[data-xs]").find(shown);
  first.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  check(shown(tip), "arrows do nothing");
  first.dispatchEvent(new Event("blur"));

  // a click on a column header sorts the table
  all("th.o").forEach((th) => {
    th.click();
    th.click();
    const values = [...th.closest("table").tBodies[0].rows].map((r) => r.cells[th.cellIndex]).filter((c) => "v" in c.dataset && c.dataset.v !== "").map((c) => +c.dataset.v);
    check(values.every((v, i) => !i || v <= values[i - 1]), `${th.textContent}: ${values} does not fall`);
  });

  // a click on a run hides it
  const key = document.querySelector(".legend [data-r]");
  if (key) {
    const mine = all(`svg .s[data-r="${key.dataset.r}"]`);
    key.click();
    check(mine.length > 0 && mine.every((s) => !shown(s)), "a run is not hidden");
    key.click();
    check(mine.every(shown), "a run stays hidden");
  }

  // the theme button changes colors
  const color = () => getComputedStyle(document.body).backgroundColor, before = color(), theme = document.getElementById("theme");
  theme.click(); theme.click();
  check(color() !== before || matchMedia("(prefers-color-scheme: dark)").matches, "the theme does not change");
  theme.click();

  const wide = document.documentElement.scrollWidth - innerWidth;
  check(wide <= 0, `the page is ${wide} pixels wider than the window`);
  const result = document.createElement("pre");
  result.id = "probe";
  result.textContent = JSON.stringify({ wrong, ...seen, width: innerWidth });
  document.body.append(result);
  if (parent !== window) parent.postMessage(result.textContent, "*");
})();

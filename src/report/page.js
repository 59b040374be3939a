// Optional features of a report: tooltips, hiding and highlighting runs, sorting tables, CSV, the theme. The page is complete without
// them. Attributes of the plots describe their axes; #data-ID has the CSV of a figure or table.
"use strict";
(() => {
  const root = document.documentElement, all = (s, from = document) => [...from.querySelectorAll(s)];
  root.classList.add("js");

  // ---- theme: that of the system, until the button is used
  const theme = document.getElementById("theme"), names = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const keep = (v) => { try { return v === undefined ? localStorage.getItem("yoke-theme") || "" : localStorage.setItem("yoke-theme", v); } catch { return ""; } };
  const show = (v) => { if (v) root.dataset.theme = v; else delete root.dataset.theme; theme.textContent = names[v]; };
  show(keep() in names ? keep() : "");
  theme.onclick = () => {
    const order = ["", "light", "dark"], next = order[(order.indexOf(root.dataset.theme || "") + 1) % 3];
    keep(next); show(next);
  };

  // ---- numbers, formatted as in scale.c
  const three = (x) => { const a = Math.abs(x); return x.toFixed(a >= 99.95 ? 0 : a >= 9.995 ? 1 : 2); };
  const scaled = (x, words) => { let k = 0; while (Math.abs(x) >= 999.5 && k + 1 < words.length) { x /= 1000; k++; } return (k === 0 && Number.isInteger(x) ? String(x) : three(x)) + words[k]; };
  const two = (n) => String(n).padStart(2, "0");
  const format = {
    plain: (x) => { const a = Math.abs(x); return a !== 0 && (a < 1e-4 || a >= 1e6) ? x.toPrecision(3) : x.toFixed(a >= 100 ? 1 : a >= 10 ? 2 : a >= 1 ? 3 : 4); },
    short: (x) => String(+x.toPrecision(6)),
    count: (x) => scaled(x, ["", " k", " M", " G", " T"]),
    whole: (x) => Math.round(x).toLocaleString("en"),
    share: (x) => (100 * x).toFixed(2) + " %",
    seconds: (x) => x < 0.0995 ? (1e3 * x).toFixed(0) + " ms" : x < 99.95 ? three(x) + " s" : x < 3599.5 ? Math.floor((x + .5) / 60) + ":" + two(Math.floor(x + .5) % 60) + " min"
      : Math.floor((x + 30) / 3600) + ":" + two(Math.floor((x + 30) % 3600 / 60)) + " h",
    bytes: (x) => scaled(Math.round(x), [" B", " kB", " MB", " GB", " TB"]),
    rate: (x) => scaled(Math.round(x), [" B/s", " kB/s", " MB/s", " GB/s", " TB/s"]),
    cores: (x) => x.toFixed(2) + (x === 1 ? " core" : " cores"),
    times: (x) => three(x) + " \u00d7",
  };

  // ---- tooltips
  const tip = document.getElementById("tip"), hidden = new Set();
  const place = (px, py) => {
    tip.style.display = "block";
    const w = tip.offsetWidth, h = tip.offsetHeight, right = scrollX + root.clientWidth;
    tip.style.left = Math.max(scrollX + 4, px + 16 + w > right ? px - w - 16 : px + 16) + "px";
    tip.style.top = Math.max(scrollY + 4, Math.min(py - h / 2, scrollY + innerHeight - h - 4)) + "px";
  };
  const element = (tag, of, set) => { const e = document.createElementNS("http://www.w3.org/2000/svg", tag); for (const k in set) e.setAttribute(k, set[k]); return of.appendChild(e); };
  const row = (classes, name, value, near) => {
    const r = document.createElement("div"), key = document.createElement("i"), n = document.createElement("span"), v = document.createElement("b");
    r.className = near ? "row near" : "row"; key.className = "k " + classes; n.textContent = name; v.textContent = value;
    r.append(key, n, v);
    return r;
  };
  const nearest = (xs, x) => { // xs ascend
    let a = 0, b = xs.length - 1;
    while (b - a > 1) { const m = (a + b) >> 1; if (xs[m] < x) a = m; else b = m; }
    return Math.abs(xs[a] - x) <= Math.abs(xs[b] - x) ? a : b;
  };
  const axisNames = ["step", "epoch", "examples", "seconds"];
  const axisFormat = [(x) => "step " + format.whole(x), (x) => "epoch " + format.short(+x.toPrecision(4)), (x) => format.count(x) + " examples", format.seconds];
  const spread = (s, i, unit) => s.s[i] > 0 ? " \u00b1 " + format[unit](s.s[i]) : ""; // the standard deviation

  // the rows of a figure; the first one has the headings
  const csv = (id) => document.getElementById("data-" + id).textContent, tables = {};
  const parse = (line) => [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map((m) => m[1] === undefined ? m[2] : m[1].replaceAll('""', '"'));
  const rowsOf = (id) => tables[id] ??= csv(id).trim().split("\n").map(parse);

  const plot = (svg) => {
    const table = rowsOf(svg.dataset.f), heading = table[0][1], axes = table[0][2] === "epoch" ? 4 : 1, axis = +svg.dataset.x;
    const [xUnit, unit] = svg.dataset.units.split(" ");
    const [left, top, width, height] = svg.dataset.box.split(" ").map(Number);
    const scale = (s) => { const [low, high, log] = s.split(" ").map(Number), t = log ? Math.log : (v) => v, a = t(low), b = t(high); return { to: (v) => (t(v) - a) / (b - a), from: (u) => log ? Math.exp(a + u * (b - a)) : a + u * (b - a) }; };
    const sx = scale(svg.dataset.xs), sy = scale(svg.dataset.ys);
    const X = (v) => left + width * sx.to(v), Y = (v) => top + height * (1 - sy.to(v));
    let group = null, now = null;
    let next = 1;
    const series = all(".s", svg).map((g) => { // as many rows as its line has points
      const line = g.querySelector(".line"), mine = table.slice(next, next += line.getAttribute("d").match(/[ML]/g).length);
      const x = axisNames.slice(0, axes).map((_, a) => mine.map((r) => +r[1 + a]));
      return { n: mine[0][0], r: +g.dataset.r, c: /c\w+ d\d/.exec(line.getAttribute("class"))[0], x, xs: x[axis], y: mine.map((r) => +r[1 + axes]), s: mine.map((r) => +r[2 + axes]) };
    });
    const clear = () => { if (group) group.remove(); group = null; tip.style.display = "none"; };
    const mark = (s, i) => { // shows point i of a series, and the other series at the same x
      clear();
      now = { s, i };
      const x = s.xs[i], rect = svg.getBoundingClientRect(), size = svg.viewBox.baseVal;
      group = element("g", svg, { class: "hover" });
      element("path", group, { class: "cross", d: `M${X(x).toFixed(1)} ${top}v${height}` });
      let rows = [];
      for (const o of series) {
        if (hidden.has(o.r) || !o.xs.length) continue;
        const k = o === s ? i : nearest(o.xs, x);
        if (o !== s && Math.abs(X(o.xs[k]) - X(x)) > width / 12) continue; // it ends before
        rows.push({ o, k, far: Math.abs(Y(o.y[k]) - Y(s.y[i])) });
      }
      rows.sort((a, b) => a.far - b.far);
      const more = rows.length - 9;
      rows = rows.slice(0, 9).sort((a, b) => b.o.y[b.k] - a.o.y[a.k]);
      tip.replaceChildren();
      const head = tip.appendChild(document.createElement("div"));
      head.className = "head";
      head.textContent = axes > 1 ? s.x.map((v, a) => axisFormat[a](v[i])).join(" \u00b7 ") : heading === "seconds" ? format[xUnit](x) : heading + " " + format.short(x);
      for (const r of rows) {
        element("circle", group, { class: "at " + r.o.c, cx: X(r.o.xs[r.k]).toFixed(1), cy: Y(r.o.y[r.k]).toFixed(1), r: r.o === s ? 4.5 : 3 });
        tip.append(row(r.o.c, r.o.n, format[unit](r.o.y[r.k]) + spread(r.o, r.k, unit), r.o === s && rows.length > 1));
      }
      if (more > 0) { const m = tip.appendChild(document.createElement("div")); m.className = "head"; m.textContent = `and ${more} more`; }
      place(scrollX + rect.left + X(x) / size.width * rect.width, scrollY + rect.top + Y(s.y[i]) / size.height * rect.height);
    };
    const move = (e) => {
      const rect = svg.getBoundingClientRect(), size = svg.viewBox.baseVal;
      const ux = (e.clientX - rect.left) / rect.width * size.width, uy = (e.clientY - rect.top) / rect.height * size.height;
      const x = sx.from((ux - left) / width);
      let best = null;
      for (const s of series) {
        if (hidden.has(s.r) || !s.xs.length) continue;
        const k = nearest(s.xs, x);
        for (const i of [k - 1, k, k + 1]) {
          if (i < 0 || i >= s.xs.length) continue;
          const d = Math.hypot((X(s.xs[i]) - ux) * 2, Y(s.y[i]) - uy); // prefers points above or below the mouse
          if (!best || d < best.d) best = { d, s, i };
        }
      }
      if (best) mark(best.s, best.i); else clear();
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", move);
    svg.addEventListener("pointerleave", clear);
    svg.addEventListener("blur", clear);
    svg.tabIndex = 0;
    svg.addEventListener("keydown", (e) => { // arrows move along a line, and to another line
      const shown = series.filter((s) => !hidden.has(s.r) && s.xs.length);
      if (!shown.length || !e.key.startsWith("Arrow")) return;
      e.preventDefault();
      if (!now || !shown.includes(now.s)) return mark(shown[0], 0);
      const turn = e.key === "ArrowUp" ? -1 : e.key === "ArrowDown" ? 1 : 0;
      const s = shown[(shown.indexOf(now.s) + turn + shown.length) % shown.length];
      const i = s === now.s ? now.i + (e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0) : nearest(s.xs, now.s.xs[now.i]);
      mark(s, Math.max(0, Math.min(s.xs.length - 1, i)));
    });
  };
  all("svg[data-xs]").forEach(plot);

  // Bars and rings: their titles become tooltips without a delay.
  all("svg title").forEach((t) => {
    const e = t.parentNode, text = t.textContent;
    e.setAttribute("aria-label", text);
    t.remove();
    if (e.classList.contains("ring")) return;
    e.addEventListener("pointermove", (p) => { tip.textContent = text; place(p.pageX, p.pageY); });
    e.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  });

  // ---- legend: a click hides a run, hovering highlights it
  all(".legend [data-r]").forEach((b) => {
    const mine = () => all(`svg .s[data-r="${b.dataset.r}"]`);
    b.addEventListener("click", () => {
      const r = +b.dataset.r, off = !hidden.has(r);
      if (off) hidden.add(r); else hidden.delete(r);
      all(`.legend [data-r="${r}"]`).forEach((o) => { o.classList.toggle("off", off); o.setAttribute("aria-pressed", String(!off)); });
      mine().forEach((s) => s.classList.toggle("gone", off));
    });
    const lit = (on) => () => { document.body.classList.toggle("lit", on); mine().forEach((s) => s.classList.toggle("on", on)); };
    b.addEventListener("pointerenter", lit(true));
    b.addEventListener("pointerleave", lit(false));
    b.addEventListener("focus", lit(true));
    b.addEventListener("blur", lit(false));
  });

  // ---- tables: a click on a heading sorts; unknown values are last
  all("th.o").forEach((th) => {
    th.tabIndex = 0;
    const sort = () => {
      const table = th.closest("table"), body = table.tBodies[0], at = th.cellIndex, down = th.getAttribute("aria-sort") === "ascending";
      all("th", table).forEach((o) => o.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (r) => { const c = r.cells[at]; return "v" in c.dataset ? (c.dataset.v === "" ? null : +c.dataset.v) : c.textContent.trim() || null; };
      const compare = (a, b) => { const x = key(a), y = key(b); if (x === null || y === null) return (x === null) - (y === null); const c = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true }); return down ? -c : c; };
      [...body.rows].sort(compare).forEach((r) => { r.classList.remove("g"); body.append(r); });
    };
    th.addEventListener("click", sort);
    th.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(); } });
  });

  // ---- CSV of a table or of a figure
  all(".csv").forEach((b) => b.addEventListener("click", () => {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([csv(b.dataset.f).replaceAll("\n", "\r\n")], { type: "text/csv" }));
    a.download = b.dataset.f + ".csv";
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  }));

  // ---- links to a run open its details; printing opens all
  const open = () => { const e = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1))); if (e && e.tagName === "DETAILS") e.open = true; };
  addEventListener("hashchange", open);
  open();
  addEventListener("beforeprint", () => all("details").forEach((d) => { d.open = true; }));
})();

// Small charts in SVG. They are redrawn from the figures, with about as many points as there are pixels, so ten
// thousand batches cost as little as a hundred. Colours are classes: the style sheet has light and dark ones.
const charts = (() => {
  "use strict";
  const MARGIN = { left: 56, right: 10, top: 10, bottom: 24 };
  const shown = new WeakMap(); // chart → what is drawn in it, for the pointer

  const make = (tag, attributes = {}, text = "") => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== "") node.textContent = text;
    return node;
  };

  const ticks = (low, high, most, whole = false) => {
    const rough = (high - low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const fine = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const step = whole ? Math.max(1, fine) : fine;
    const values = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) values.push(i * step || 0); // never -0
    return values;
  };

  const frame = (holder, low, high, format, whole) => {
    const width = Math.max(holder.clientWidth, 200);
    const svg = make("svg", { role: "img" });
    const height = parseFloat(getComputedStyle(holder).minHeight);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
    const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - MARGIN.top);
    for (const at of ticks(low, high, 5, whole)) {
      svg.append(make("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(at), y2: y(at) }));
      svg.append(make("text", { x: MARGIN.left - 6, y: y(at) + 4, "text-anchor": "end" }, format(at)));
    }
    return { svg, y, left: MARGIN.left, right, top: MARGIN.top, bottom };
  };

  const put = (holder, svg, label) => {
    svg.setAttribute("aria-label", label);
    const old = holder.querySelector("svg");
    old ? old.replaceWith(svg) : holder.prepend(svg);
  };

  // values: [{name, value, text}]; levels: [{at, look}], lines across
  const bars = (holder, { values, levels, look, format, label }) => {
    const high = 1.05 * Math.max(...values.map((v) => v.value), ...levels.map((l) => l.at)) || 1;
    const { svg, y, left, right, bottom } = frame(holder, 0, high, format);
    const room = (right - left) / values.length;
    const every = Math.ceil(26 / room);
    values.forEach(({ name, value, text }, i) => {
      const x = left + i * room, width = Math.max(room * 0.8, 0.5);
      const bar = make("rect", { class: `bar ${look}`, x: x + room * 0.1, y: y(value), width, height: bottom - y(value) });
      bar.append(make("title", {}, text));
      svg.append(bar);
      if (i % every === 0) svg.append(make("text", { x: x + room / 2, y: bottom + 16, "text-anchor": "middle" }, name));
    });
    for (const { at, look: line } of levels) svg.append(make("line", { class: `level ${line}`, x1: left, x2: right, y1: y(at), y2: y(at) }));
    put(holder, svg, label);
  };

  // The path through the lowest and highest value of each pixel's batches, in their order: no peak is lost.
  const path = (rows, field, x, y, step) => {
    const points = [];
    let column = null, low = null, high = null;
    const flush = () => {
      if (low === null) return;
      points.push(...(low.row.batch <= high.row.batch ? [low, high] : [high, low]).slice(low === high ? 1 : 0));
      low = high = null;
    };
    let text = "", started = false;
    const draw = () => {
      for (const { at, value } of points.splice(0)) {
        const height = y(value).toFixed(1);
        text += started ? (step ? `H${at}V${height}` : `L${at},${height}`) : `M${at},${height}`;
        started = true;
      }
    };
    for (const row of rows) {
      const value = row[field];
      if (value === null) { flush(); draw(); started = false; continue; }
      const at = Math.round(x(row.batch));
      if (at !== column) { flush(); column = at; }
      const point = { row, at, value };
      if (low === null || value < low.value) low = point;
      if (high === null || value >= high.value) high = point;
    }
    flush(); draw();
    return text;
  };

  // series: [{field, look, step}]; marked: whether a batch gets an upright line; say: a batch in words
  const lines = (holder, { rows, series, low, high, marked, format, whole, say, label }) => {
    const { svg, y, left, right, top, bottom } = frame(holder, low, high, format, whole);
    const first = rows[0].batch, last = rows[rows.length - 1].batch;
    const x = (batch) => last === first ? (left + right) / 2 : left + ((batch - first) / (last - first)) * (right - left);
    for (const at of ticks(first, last, (right - left) / 90, true)) {
      svg.append(make("text", { x: x(at), y: bottom + 16, "text-anchor": x(at) > right - 20 ? "end" : "middle" }, at.toLocaleString("en")));
    }
    const marks = new Set(rows.filter(marked).map((row) => Math.round(x(row.batch))));
    for (const at of marks) svg.append(make("line", { class: "migration", x1: at, x2: at, y1: top, y2: bottom }));
    const inside = make("svg", { x: 0, y: top, width: right + 5, height: bottom - top + 2, viewBox: `0 ${top} ${right + 5} ${bottom - top + 2}` });
    for (const { field, look, step } of series) inside.append(make("path", { class: `series ${look}`, d: path(rows, field, x, y, step) }));
    svg.append(inside);
    put(holder, svg, label);
    if (!shown.has(holder)) listen(holder);
    shown.set(holder, { rows, x, left, right, top, bottom, first, last, say });
  };

  const listen = (holder) => {
    const readout = document.createElement("p");
    readout.className = "readout";
    holder.append(readout);
    holder.addEventListener("pointermove", (event) => {
      const { rows, x, left, right, top, bottom, first, last, say } = shown.get(holder);
      const share = (event.clientX - holder.getBoundingClientRect().left - left) / (right - left);
      const row = nearest(rows, first + share * (last - first));
      const pointer = holder.querySelector(".pointer") ?? holder.querySelector("svg").appendChild(make("line", { class: "pointer", y1: top, y2: bottom }));
      pointer.setAttribute("x1", x(row.batch));
      pointer.setAttribute("x2", x(row.batch));
      readout.textContent = say(row);
    });
    holder.addEventListener("pointerleave", () => {
      holder.querySelector(".pointer")?.remove();
      readout.textContent = "";
    });
  };

  const nearest = (rows, batch) => {
    let low = 0, high = rows.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].batch < batch) low = middle + 1; else high = middle;
    }
    const before = rows[Math.max(low - 1, 0)];
    return batch - before.batch < rows[low].batch - batch ? before : rows[low];
  };

  return { bars, lines };
})();

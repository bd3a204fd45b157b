// Small charts in SVG. They are redrawn from the figures, with about as many points as there are pixels, so ten
// thousand batches cost as little as a hundred. Colours are classes: the style sheet has light and dark ones.
const charts = (() => {
  "use strict";
  const MARGIN = { left: 56, right: 10, top: 10, bottom: 24 };
  const shown = new WeakMap(); // chart → what is drawn in it, for the pointer
  const chosen = new WeakMap(); // chart → the batch that is read out
  const choosers = new WeakMap(); // chart → how to read out a batch

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

  const LANE = { height: 22, gap: 8, left: 64 };
  const LETTER = 7; // about the width of one, in pixels

  // Rows of parts, one for each slot. lanes: [{name, value, text, parts: [{value, look, name, text}]}]; level: a line down
  const lanes = (holder, { lanes: rows, level, label }) => {
    const width = Math.max(holder.clientWidth, 200), right = width - MARGIN.right;
    const high = Math.max(...rows.map((row) => row.value), level, 1);
    const x = (value) => LANE.left + (value / high) * (right - LANE.left);
    const bottom = rows.length * (LANE.height + LANE.gap);
    const svg = make("svg", { role: "img", viewBox: `0 0 ${width} ${bottom}` });
    rows.forEach((row, i) => {
      const top = i * (LANE.height + LANE.gap) + LANE.gap / 2;
      const name = make("text", { x: LANE.left - 8, y: top + 16, "text-anchor": "end" }, row.name);
      name.append(make("title", {}, row.text));
      svg.append(name);
      let from = 0;
      for (const part of row.parts) {
        const left = x(from), size = x(from + part.value) - left;
        const box = make("rect", { class: `part ${part.look}`, x: left, y: top, width: Math.max(size, 0), height: LANE.height });
        box.append(make("title", {}, part.text));
        svg.append(box);
        const room = Math.floor((size - 8) / LETTER);
        const words = part.name.length <= room ? part.name : room > 5 ? `${[...part.name].slice(0, room - 1).join("")}…` : "";
        if (words) svg.append(make("text", { class: "name", x: left + 5, y: top + 16 }, words));
        from += part.value;
      }
    });
    if (level > 0) svg.append(make("line", { class: "level bound", x1: x(level), x2: x(level), y1: 0, y2: bottom }));
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
    if (!shown.has(holder)) choosers.set(holder, listen(holder));
    shown.set(holder, { rows, x, left, right, top, bottom, first, last, say });
    holder.setAttribute("aria-label", label);
    holder.setAttribute("aria-valuemin", first);
    holder.setAttribute("aria-valuemax", last);
    if (chosen.has(holder)) {
      choosers.get(holder)(nearest(rows, chosen.get(holder)));
    } else {
      holder.setAttribute("aria-valuenow", last);
      holder.setAttribute("aria-valuetext", say(rows[rows.length - 1]));
    }
  };

  // A chart over batches is a slider: the mouse, a finger or the arrow keys choose a batch, and its figures are read out.
  const listen = (holder) => {
    const readout = document.createElement("p");
    readout.className = "readout";
    readout.setAttribute("aria-hidden", "true"); // the slider says the same
    holder.append(readout);
    holder.tabIndex = 0;
    holder.setAttribute("role", "slider");
    const choose = (row) => {
      const { x, top, bottom, say } = shown.get(holder);
      const pointer = holder.querySelector(".pointer") ?? holder.querySelector("svg").appendChild(make("line", { class: "pointer", y1: top, y2: bottom }));
      pointer.setAttribute("x1", x(row.batch));
      pointer.setAttribute("x2", x(row.batch));
      readout.textContent = say(row);
      holder.setAttribute("aria-valuenow", row.batch);
      holder.setAttribute("aria-valuetext", say(row));
      chosen.set(holder, row.batch);
    };
    const leave = () => {
      holder.querySelector(".pointer")?.remove();
      readout.textContent = "";
      chosen.delete(holder);
    };
    holder.addEventListener("pointermove", (event) => {
      const { rows, left, right, first, last } = shown.get(holder);
      const share = (event.clientX - holder.getBoundingClientRect().left - left) / (right - left);
      choose(nearest(rows, first + share * (last - first)));
    });
    holder.addEventListener("pointerleave", leave);
    holder.addEventListener("blur", leave);
    holder.addEventListener("keydown", (event) => {
      const { rows, last } = shown.get(holder);
      const at = rows.indexOf(nearest(rows, chosen.get(holder) ?? last));
      const started = chosen.has(holder);
      const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const to = started || Math.abs(steps[event.key]) === Infinity ? at + steps[event.key] : at;
      choose(rows[Math.max(0, Math.min(to, rows.length - 1))]);
    });
    return choose;
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

  return { bars, lanes, lines };
})();

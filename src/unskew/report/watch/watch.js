// Keeps the batches that the journal reported, asks for more every second, and draws them. Text that comes from the
// journal is put into text nodes and nowhere else.
(() => {
  "use strict";
  const EVERY = 1000; // milliseconds between two requests
  const PAGE = 20; // rows of a table that are in the document at once
  const setup = JSON.parse(document.getElementById("setup").textContent);
  const byId = (id) => document.getElementById(id);
  let batches = [];
  let latest = { slots: [], top: [] };

  // figures with their units
  const orDash = (show) => (value) => value === null || value === undefined ? "–" : show(value);
  const count = orDash((n) => n.toLocaleString("en", { maximumFractionDigits: 0 }));
  const ratio = orDash((n) => n.toFixed(3));
  const seconds = orDash((s) => s < 0.9995 ? `${(1000 * s).toFixed(0)} ms` : `${s.toFixed(2)} s`);
  const share = orDash((s) => `${(100 * s).toFixed(1)} %`);
  const bytes = orDash((n) => {
    const power = Math.min(Math.floor(Math.log10(Math.max(n, 1)) / 3), 4);
    return `${(n / 1000 ** power).toFixed(power ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
  });
  const short = (n) => n.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
  const clock = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const at = orDash((t) => clock.format(1000 * t));

  const element = (tag, look = "", text = "") => {
    const node = document.createElement(tag);
    if (look) node.className = look;
    if (text !== "") node.textContent = text;
    return node;
  };

  // A table that has one page of its rows in the document. columns: [title, show(row), look of its cells]
  const table = (holder, columns, empty) => {
    const body = element("tbody"), pager = element("div", "pager"), head = element("tr");
    const [previous, where, next] = [element("button", "", "Previous"), element("span"), element("button", "", "Next")];
    let rows = [], from = 0;
    for (const [title, , look] of columns) head.append(element("th", look, title));
    const draw = () => {
      from = Math.max(0, Math.min(from, PAGE * Math.floor((rows.length - 1) / PAGE)));
      body.replaceChildren(...rows.slice(from, from + PAGE).map((row) => {
        const line = element("tr", row.switch ? "strong" : "");
        for (const [, show, look] of columns) {
          const cell = element("td", look);
          cell.append(show(row));
          line.append(cell);
        }
        return line;
      }));
      pager.hidden = rows.length <= PAGE;
      where.textContent = rows.length ? `${count(from + 1)}–${count(Math.min(from + PAGE, rows.length))} of ${count(rows.length)}` : "";
      [previous.disabled, next.disabled] = [from === 0, from + PAGE >= rows.length];
      nothing.hidden = rows.length > 0;
      wide.hidden = rows.length === 0;
    };
    previous.addEventListener("click", () => { from -= PAGE; draw(); });
    next.addEventListener("click", () => { from += PAGE; draw(); });
    const wide = element("div", "wide"), whole = element("table"), top = element("thead");
    const nothing = element("p", "empty", empty);
    top.append(head);
    whole.append(top, body);
    wide.append(whole);
    pager.append(previous, where, next);
    holder.append(nothing, wide, pager);
    return (newRows) => { rows = newRows; draw(); };
  };

  // A table in a <details> is filled only while it is open.
  const behind = (id, columns) => {
    const holder = byId(`${id}-table`);
    const fill = table(holder, columns, "No figures yet.");
    let rows = [];
    holder.addEventListener("toggle", () => holder.open && fill(rows));
    return (newRows) => { rows = newRows; if (holder.open) fill(rows); };
  };

  const bar = (part) => {
    const outer = element("span", "share"), inner = element("i");
    inner.style.width = `${100 * part}%`;
    outer.append(inner);
    return outer;
  };
  const total = (rows, field) => rows.reduce((sum, row) => sum + (row[field] ?? 0), 0);
  const mean = (rows, field) => rows.length ? total(rows, field) / rows.length : 0;
  const moved = (row) => row.moved_rows > 0;
  const nameOf = ["batch", (b) => count(b.batch), "number"], timeOf = ["time", (b) => at(b.time), "plain"];
  const movedOf = ["state moved", (b) => moved(b) ? `${count(b.moved_rows)} keys, ${bytes(b.moved_bytes)}` : "–", "number"];
  const slotColumns = [
    ["slot", (s) => count(s.slot), "number"],
    ["records", (s) => count(s.records), "number"],
    ["× mean", (s) => ratio(s.relative), "number"],
    ["state, keys", (s) => count(s.state_rows), "number"],
    ["state, size", (s) => bytes(s.state_bytes), "number"],
  ];
  const tables = {
    loads: behind("loads", slotColumns),
    state: behind("state", slotColumns),
    imbalance: behind("imbalance", [nameOf, timeOf, ["imbalance", (b) => ratio(b.imbalance), "number"], ["least possible", (b) => ratio(b.bound), "number"], movedOf]),
    seconds: behind("seconds", [nameOf, timeOf, ["batch time", (b) => seconds(b.seconds), "number"], ["records", (b) => count(b.records), "number"], movedOf]),
    slots: behind("slots", [nameOf, timeOf, ["slots", (b) => count(b.slots), "number"], ["heavy rows", (b) => count(b.heavy), "number"], ["table version", (b) => count(b.version), "number"]]),
    keys: table(byId("keys"), [
      ["key", (k) => k.key, "text"],
      ["slot", (k) => count(k.slot), "number"],
      ["share", (k) => share(k.share), "number"],
      ["", (k) => bar(k.part), "plain"],
      ["records", (k) => count(k.records), "number"],
      ["placed", (k) => k.heavy === null ? "–" : k.heavy ? "by its own row" : "with its bucket", "plain"],
    ], "No keys yet."),
    decisions: table(byId("decisions"), [
      nameOf,
      ["decision", (b) => b.switch ? "change" : b.reason ? "stay" : "–", "plain"],
      ["because", (b) => b.reason || "–", "text"],
      movedOf,
      ["time saved", (b) => b.gain ? seconds(b.gain) : "–", "number"],
      ["cost of moving", (b) => b.cost ? seconds(b.cost) : "–", "number"],
      timeOf,
    ], "No decisions yet."),
  };

  const card = (label, value, note) => {
    const node = element("div", "card");
    node.append(element("div", "label", label), element("div", "value", value), element("div", "note", note));
    return node;
  };

  const drawCards = (last) => {
    const migration = batches.findLast(moved);
    byId("cards").replaceChildren(
      card("batch", count(last.batch), at(last.time)),
      card("imbalance", ratio(last.imbalance), `fullest ÷ mean slot; least possible ${ratio(last.bound)}`),
      card("batch time", seconds(last.seconds), last.seconds > 0 && last.records !== null ? `${count(last.records / last.seconds)} records/s` : ""),
      card("records", count(last.records), last.late ? `${count(last.late)} came too late` : "in the last batch"),
      card("slots", count(last.slots), `of at most ${count(setup.max_slots)}`),
      card("state", `${count(last.state_rows)} keys`, bytes(last.state_bytes)),
      card("routing table", `version ${count(last.version)}`, `${count(last.heavy)} heavy keys have a row`),
      card("last migration", migration ? `batch ${count(migration.batch)}` : "none",
        migration ? `${count(migration.moved_rows)} keys, ${bytes(migration.moved_bytes)}` : "no state moved so far"),
    );
  };

  const drawLast = (last) => {
    const { slots, top } = latest;
    const even = mean(slots, "records"), all = total(slots, "records"), most = Math.max(...top.map((k) => k.records ?? 0), 1);
    const named = slots.map((s) => ({ ...s, relative: even && s.records !== null ? s.records / even : null }));
    const values = (field, unit) => slots.map((s) => ({ name: s.slot, value: s[field] ?? 0, text: `slot ${s.slot}: ${count(s[field])} ${unit}` }));
    charts.bars(byId("loads"), {
      values: values("records", "records"), look: "tone-1", format: short,
      levels: [{ at: even, look: "mean" }, { at: (last.bound ?? 0) * even, look: "bound" }],
      label: `Records by slot; the fullest has ${ratio(last.imbalance)} times the mean`,
    });
    charts.bars(byId("state"), {
      values: values("state_rows", "keys"), look: "tone-4", format: short, levels: [{ at: mean(slots, "state_rows"), look: "mean" }],
      label: `Keys with state by slot, ${count(last.state_rows)} in total`,
    });
    tables.loads(named);
    tables.state(named);
    tables.keys(top.map((k) => ({ ...k, share: all && k.records !== null ? k.records / all : null, part: (k.records ?? 0) / most })));
  };

  const range = (rows, fields) => rows.reduce(([low, high], row) => {
    for (const field of fields) if (row[field] !== null) [low, high] = [Math.min(low, row[field]), Math.max(high, row[field])];
    return [low, high];
  }, [Infinity, -Infinity]);

  const drawTime = () => {
    const limit = Number(byId("range").value);
    const rows = limit ? batches.slice(-limit) : batches;
    const backwards = rows.toReversed();
    const migration = (b) => moved(b) ? `, ${count(b.moved_rows)} keys moved` : "";
    const uneven = range(rows, ["imbalance", "bound"])[1];
    charts.lines(byId("imbalance"), {
      rows, low: 1, high: Math.max(uneven * 1.02, 1.1), marked: moved, format: (v) => v.toFixed(2),
      series: [{ field: "bound", look: "bound" }, { field: "imbalance", look: "tone-1" }],
      say: (b) => `batch ${count(b.batch)}: imbalance ${ratio(b.imbalance)}, least possible ${ratio(b.bound)}${migration(b)}`,
      label: "Imbalance of each batch beside the least possible",
    });
    const settled = rows.length > 2 ? rows.filter((b) => b.batch > 0) : rows;
    const slowest = range(settled, ["seconds"])[1];
    charts.lines(byId("seconds"), {
      rows, low: 0, high: slowest > 0 ? slowest * 1.05 : 1, marked: moved, format: (v) => `${Number(v.toPrecision(3))} s`,
      series: [{ field: "seconds", look: "tone-2" }],
      say: (b) => `batch ${count(b.batch)}: ${seconds(b.seconds)}, ${count(b.records)} records${migration(b)}`,
      label: "Seconds of each batch",
    });
    charts.lines(byId("slots"), {
      rows, low: 0, high: Math.max(range(rows, ["slots", "most"])[1], 1) * 1.05, marked: () => false, format: count, whole: true,
      series: [{ field: "most", look: "bound" }, { field: "slots", look: "tone-3", step: true }],
      say: (b) => `batch ${count(b.batch)}: ${count(b.slots)} slots, table version ${count(b.version)}`,
      label: "Slots in use",
    });
    for (const name of ["imbalance", "seconds", "slots"]) tables[name](backwards);
    tables.decisions(byId("switches").checked ? batches.filter((b) => b.switch).reverse() : batches.toReversed());
  };

  const draw = () => {
    if (!batches.length) return;
    const last = batches[batches.length - 1];
    drawCards(last);
    drawLast(last);
    drawTime();
  };
  let due = false;
  const drawSoon = () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; draw(); });
  };

  const say = (word, text) => {
    byId("status").dataset.word = word;
    byId("status").textContent = text;
  };

  const named = (columns, rows, more = {}) => rows.map((row) => columns.reduce((record, name, i) => { record[name] = row[i]; return record; }, { ...more }));

  const take = (news) => {
    say(news.status.word, news.status.text);
    if (news.status.word === "waiting" && batches.length) location.reload(); // the checkpoint was started over
    if (!news.batches.length) return;
    const fresh = named(setup.columns.batch, news.batches, { most: setup.max_slots });
    const unchanged = batches.findLastIndex((b) => b.batch < fresh[0].batch) + 1;
    batches = batches.slice(0, unchanged).concat(fresh);
    latest = {
      slots: named(setup.columns.slot, news.latest.slots),
      top: named(setup.columns.key, news.latest.top),
    };
    drawSoon();
  };

  const ask = async (position) => {
    let next = position;
    try {
      const response = await fetch(`news?after=${encodeURIComponent(position)}`);
      if (response.ok) {
        const news = await response.json();
        take(news);
        next = news.position;
      } else {
        say("lost", await response.text());
      }
    } catch {
      say("lost", "unskew watch has stopped: start it again on this port, or close this page");
    }
    setTimeout(ask, EVERY, next);
  };

  byId("checkpoint").textContent = setup.checkpoint;
  byId("footer").textContent = setup.news ? `Exported ${at(setup.exported)}.` : "Served to this machine only; updated every second.";
  byId("range").addEventListener("change", drawSoon);
  byId("switches").addEventListener("change", drawSoon);
  addEventListener("resize", drawSoon);
  setup.news ? take(setup.news) : ask("");
})();

// Keeps the batches that the journal reported, asks for more every second, and draws them. Text that comes from the
// journal is put into text nodes and nowhere else.
(() => {
  "use strict";
  const EVERY = 1000; // milliseconds between two requests
  const PAGE = 20; // rows of a table that are in the document at once
  const MOST_LANES = 24; // slots that are drawn with their keys: the fullest
  const TONES = 6; // colours of hot keys, the hottest first
  const RECENT = 20; // batches for which a key counts as having moved
  const MOST_MOVES = 8; // moves that are listed
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
  const table = (holder, columns, empty, what) => {
    const body = element("tbody"), pager = element("div", "pager"), head = element("tr");
    const [previous, where, next] = [element("button", "", "Previous"), element("span"), element("button", "", "Next")];
    let rows = [], from = 0;
    for (const [title, , look] of columns) {
      const cell = element("th", look, title === "bar" ? "" : title);
      cell.scope = "col";
      if (title === "bar") cell.append(element("span", "unseen", "share as a bar"));
      head.append(cell);
    }
    previous.setAttribute("aria-label", `Previous rows: ${what}`);
    next.setAttribute("aria-label", `Next rows: ${what}`);
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
    const caption = element("caption", "unseen", what);
    // a table that is wider than the screen scrolls, also with the arrow keys
    wide.tabIndex = 0;
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", what);
    where.setAttribute("aria-live", "polite");
    top.append(head);
    whole.append(caption, top, body);
    wide.append(whole);
    pager.append(previous, where, next);
    holder.append(nothing, wide, pager);
    return (newRows) => { rows = newRows; draw(); };
  };

  // A table in a <details> is filled only while it is open.
  const behind = (id, columns) => {
    const holder = byId(`${id}-table`);
    const title = holder.parentElement.querySelector("h3").textContent;
    const fill = table(holder, columns, "No figures yet.", `${title}, figures`);
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
      ["bar", (k) => bar(k.part), "plain"],
      ["records", (k) => count(k.records), "number"],
      ["placed", (k) => k.heavy === null ? "–" : k.heavy ? "by its own row" : "with its bucket", "plain"],
      ["came from", (k) => k.previous === null ? "–" : `slot ${count(k.previous)}, batch ${count(k.came)}`, "plain"],
    ], "No keys yet.", "Heavy keys and their slots"),
    decisions: table(byId("decisions"), [
      nameOf,
      ["decision", (b) => b.switch ? "change" : b.reason ? "stay" : "–", "plain"],
      ["because", (b) => b.reason || "–", "text"],
      movedOf,
      ["time saved", (b) => b.gain ? seconds(b.gain) : "–", "number"],
      ["cost of moving", (b) => b.cost ? seconds(b.cost) : "–", "number"],
      timeOf,
    ], "No decisions yet.", "Decisions"),
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

  const slotName = (slot) => slot === null ? "–" : `slot ${count(slot)}`;
  const cameLately = (key, last) => key.previous !== null && key.previous !== key.slot && last.batch - key.came < RECENT;

  // The fullest slots, each cut into its hot keys and the rest.
  const drawLanes = (last) => {
    const { slots, top } = latest;
    const even = mean(slots, "records");
    const fullest = slots.toSorted((a, b) => (b.records ?? 0) - (a.records ?? 0)).slice(0, MOST_LANES).toSorted((a, b) => a.slot - b.slot);
    const lanes = fullest.map((s) => {
      const all = s.records ?? 0;
      const keys = top.map((k, rank) => ({ ...k, rank })).filter((k) => k.slot === s.slot && k.records > 0);
      const parts = keys.map((k) => {
        const came = cameLately(k, last);
        const name = came ? `${k.key} ← ${count(k.previous)}` : k.key;
        const look = `tone-${1 + k.rank % TONES}${came ? " came" : ""}`;
        return { value: k.records, look, name, text: `${k.key}: ${count(k.records)} records${came ? `, came from slot ${count(k.previous)} in batch ${count(k.came)}` : ""}` };
      });
      const rest = Math.max(all - total(keys, "records"), 0);
      parts.push({ value: rest, look: "rest", name: "", text: `other keys: ${count(rest)} records` });
      return { name: `slot ${s.slot}`, value: Math.max(all, total(keys, "records")), parts, text: `slot ${s.slot}: ${count(all)} records`, keys };
    });
    const spoken = lanes.filter((l) => l.keys.length).map((l) => `${l.name}: ${l.keys.map((k) => k.key).join(", ")}`).join("; ");
    byId("lanes").hidden = !lanes.length;
    if (lanes.length) charts.lanes(byId("lanes"), { lanes, level: (last.bound ?? 0) * even, label: `Hot keys by slot. ${spoken || "None is known"}` });
    byId("more-slots").hidden = slots.length <= MOST_LANES;
    byId("more-slots").textContent = `The ${count(MOST_LANES)} fullest of ${count(slots.length)} slots.`;
    const moves = top.filter((k) => k.previous !== null).sort((a, b) => b.came - a.came).slice(0, MOST_MOVES);
    byId("moves").replaceChildren(...moves.map((k) => element("li", "", `batch ${count(k.came)}: ${k.key}, from slot ${count(k.previous)} to ${slotName(k.slot)}`)));
    if (!moves.length) byId("moves").append(element("li", "", "None of the keys that are hot now has changed its slot."));
  };

  const drawLast = (last) => {
    const { slots, top } = latest;
    drawLanes(last);
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
    // the text changes every second; a screen reader is told only of another state
    if (byId("status").dataset.word !== word) byId("announcement").textContent = text;
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

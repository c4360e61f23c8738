/* The page in a browser: draws the plots, fetches the page again, and shows rows of a table.
   Text of a source is only ever assigned as text; the server escapes what is markup. */
"use strict";
(() => {
  const EVERY_MS = 5000, TIMEOUT_MS = 15000, ROWS_TIMEOUT_MS = 45000, BRIEF = 36, KEY = "spark_repl.token";
  const main = document.querySelector("main"), notice = document.getElementById("notice");
  const live = document.body.dataset.live !== undefined;
  const plots = new Map();
  let last = new Date(), wake = () => {};

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  /* The token comes from the address's fragment, which no server sees, or from the form. */
  function storedToken() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    try {
      if (given) {
        sessionStorage.setItem(KEY, given);
        history.replaceState(null, "", location.pathname);
      }
      return given || sessionStorage.getItem(KEY) || "";
    } catch (_) {
      return given || "";
    }
  }
  let token = live ? storedToken() : "";

  function ask(path, ms) {
    const headers = token ? {Authorization: "Bearer " + token} : {};
    return fetch(new URL(path, location.origin), {
      headers, cache: "no-store", mode: "same-origin", redirect: "error",
      signal: AbortSignal.timeout(ms),
    });
  }

  /* Plots */
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const figures = new Intl.NumberFormat("en", {maximumSignificantDigits: 3});
  const short = new Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 3});
  const number = value => value == null ? "–" : figures.format(value);
  const clock = {minute: "{HH}:{mm}", second: "{HH}:{mm}:{ss}", day: "{D} {MMM}"};
  const times = [
    [86400, clock.day, null, null, null, null, null, null, 1],
    [60, clock.minute, "\n" + clock.day, null, "\n" + clock.day, null, null, null, 1],
    [1, clock.second, "\n" + clock.day, null, "\n" + clock.day, null, null, null, 1],
  ];

  const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
                   86400, 172800, 345600, 691200];

  function marks(list) {
    return {hooks: {draw: [plot => {
      const pen = plot.ctx, {left, top, width, height} = plot.bbox;
      pen.save();
      pen.strokeStyle = colour("--warn");
      pen.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
      for (const [at] of list) {
        const x = plot.valToPos(at, "x", true);
        if (x < left || x > left + width) continue;
        pen.beginPath();
        pen.moveTo(x, top);
        pen.lineTo(x, top + height);
        pen.stroke();
      }
      pen.restore();
    }]}};
  }

  /* At least a minute. Of a single time uPlot would show a day. */
  function minute(plot, low, high) {
    const end = plot.data[0].length === 1 ? plot.data[0][0] : high;
    return [Math.min(low, end - 60), end];
  }

  function draw(figure) {
    const area = figure.querySelector(".area"), data = JSON.parse(figure.dataset.plot);
    const colours = [colour("--plot"), colour("--plot2")], grid = {stroke: colour("--line"), width: 1};
    const axis = {stroke: colour("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif"};
    const series = data.names.map((name, at) => ({
      label: name, stroke: colours[at % 2], width: 2, spanGaps: false,
      fill: at ? undefined : colours[0] + "1f", points: {show: data.x.length < 3},
      value: (_, value) => value == null ? "–" : number(value) + " " + data.unit,
    }));
    area.replaceChildren();
    const plot = new uPlot({
      width: area.clientWidth || 300, height: 180, padding: [null, 24, null, null], plugins: [marks(data.marks)],
      cursor: {y: false, drag: {x: true, y: false}}, legend: {live: true},
      scales: {x: {range: minute},
               y: {range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1]}},
      axes: [
        {...axis, values: times, space: 70, incrs: seconds},
        {...axis, size: 52, space: 32, label: data.axis, labelSize: 18, labelGap: 0,
         labelFont: "12px system-ui, sans-serif", values: (_, ticks) => ticks.map(tick => short.format(tick))},
      ],
      series: [{label: "at", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}"}, ...series],
    }, [data.x, ...data.y], area);
    plots.set(figure.dataset.name, {figure, plot, data: figure.dataset.plot});
    sizes.observe(area);
  }
  const sizes = new ResizeObserver(entries => {
    for (const {figure, plot} of plots.values()) {
      const width = figure.querySelector(".area").clientWidth;
      if (width && width !== plot.width) plot.setSize({width, height: 180});
    }
  });

  function drawAll() {
    for (const figure of main.querySelectorAll("figure[data-plot]")) {
      if (figure.closest("details:not([open])")) continue; /* it has no width yet */
      if (plots.get(figure.dataset.name)?.figure !== figure) draw(figure);
    }
  }

  /* Keeps the drawn plot of a figure, with its cursor, and gives it the new data. */
  function keepPlots(page) {
    for (const fresh of page.querySelectorAll("figure[data-plot]")) {
      const known = plots.get(fresh.dataset.name);
      if (!known || !known.figure.isConnected) continue;
      const data = JSON.parse(fresh.dataset.plot);
      if (data.names.length !== known.plot.series.length - 1) continue;
      const area = known.figure.querySelector(".area");
      fresh.querySelector(".area").replaceWith(area);
      if (fresh.dataset.plot !== known.data) known.plot.setData([data.x, ...data.y]);
      plots.set(fresh.dataset.name, {figure: fresh, plot: known.plot, data: fresh.dataset.plot});
    }
  }

  /* The next state of the page. What a reader has opened, chosen or scrolled to stays. */
  const named = name => [...main.querySelectorAll("[data-name]")].find(e => e.dataset.name === name);
  function update(page) {
    const states = [...main.querySelectorAll("[data-name]")].map(
      e => [e.dataset.name, e.open, e.scrollLeft, e.scrollTop]);
    const at = document.activeElement?.closest("main [data-name]");
    keepPlots(page);
    document.title = page.title;
    const icon = page.querySelector("link[rel=icon]");
    if (icon) document.querySelector("link[rel=icon]").href = icon.href;
    main.replaceChildren(...page.querySelector("main").childNodes);
    for (const [name, open, left, top] of states) {
      const again = named(name);
      if (again && open) again.open = true;
      if (again && (left || top)) again.scrollTo(left, top);
    }
    const again = at && named(at.dataset.name);
    if (again) (again.querySelector("summary, button") || again).focus({preventScroll: true});
    drawAll();
  }

  async function refresh() {
    try {
      const answer = await ask("/", TIMEOUT_MS);
      if (answer.status === 401) throw new Error("the token is not accepted");
      if (!answer.ok) throw new Error("status " + answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (getSelection().isCollapsed) update(page);
      last = new Date();
      notice.textContent = "";
      return true;
    } catch (error) {
      notice.textContent = main.querySelector(".signin")
        ? (token ? "The token is not accepted." : "")
        : "No answer since " + last.toLocaleTimeString() + " (" + error.message + "): this is of then.";
      return false;
    }
  }

  /* Rows of a table */
  const dialog = document.getElementById("rows");
  let asked = 0;
  function shownCell(value) {
    if (value === null) return element("span", "NULL", "null");
    if (value === "") return element("span", "empty text", "short");
    if (typeof value === "string") return document.createTextNode(value);
    const cell = document.createDocumentFragment();
    if (value.hex !== undefined) {
      const end = value.bytes * 2 > value.hex.length ? "…" : "";
      cell.append(element("code", "0x" + value.hex + end), " ",
                  element("span", value.bytes.toLocaleString("en") + " bytes", "short"));
    } else {
      cell.append(value.text + "… ",
                  element("span", value.length.toLocaleString("en") + " characters", "short"));
    }
    return cell;
  }

  function rowsTable(answer) {
    const table = element("table"), head = element("tr"), body = element("tbody");
    for (const column of answer.columns) {
      const cell = element("th", column.name, column.number ? "number" : "");
      cell.scope = "col";
      head.append(cell);
    }
    for (const row of answer.rows) {
      const line = element("tr");
      row.forEach((value, at) => {
        const cell = element("td", undefined, answer.columns[at].number ? "number" : "");
        cell.append(shownCell(value));
        if (cell.textContent.length <= BRIEF) cell.classList.add("brief");
        line.append(cell);
      });
      body.append(line);
    }
    const top = element("thead");
    top.append(head);
    table.append(top, body);
    return table;
  }

  async function showRows() {
    const mine = ++asked, about = dialog.querySelector(".about"), area = dialog.querySelector(".wide");
    const query = new URLSearchParams({table: dialog.dataset.table, at: dialog.querySelector("select").value});
    about.className = "about";
    about.textContent = "Reading …";
    area.replaceChildren();
    try {
      const reply = await ask("/rows?" + query, ROWS_TIMEOUT_MS);
      const answer = reply.headers.get("Content-Type").startsWith("application/json")
        ? await reply.json() : {error: await reply.text()};
      if (mine !== asked) return;
      if (answer.error) {
        about.className = "about bad";
        about.textContent = answer.error + (answer.hint ? "\nTry: " + answer.hint : "");
        return;
      }
      const count = answer.rows.length, more = answer.columns_left_out;
      about.textContent = (count ? "The first " + count + (count === 1 ? " row" : " rows") : "No rows")
        + " at the cut of " + answer.at.replace("T", " ").slice(0, 23) + " UTC, in no particular order"
        + (more ? ", without " + more + " columns" : "") + ". Executed: " + answer.gtid_executed;
      area.append(rowsTable(answer));
    } catch (error) {
      if (mine !== asked) return;
      about.className = "about bad";
      about.textContent = "No answer: " + error.message;
    }
  }

  function openRows(button) {
    dialog.dataset.table = button.dataset.table;
    dialog.querySelector("h2").textContent = button.dataset.table;
    const cuts = JSON.parse(main.querySelector("[data-cuts]").dataset.cuts);
    const choice = dialog.querySelector("select");
    choice.replaceChildren(new Option("newest cut", "latest"));
    for (const at of cuts) choice.append(new Option(at.replace("T", " ").slice(0, 19) + " UTC", at));
    dialog.showModal();
    showRows();
  }

  if (dialog) {
    dialog.querySelector("select").addEventListener("change", showRows);
    dialog.querySelector("button.close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", event => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => {
      asked++;
      const button = [...main.querySelectorAll("button[data-table]")].find(
        e => e.dataset.table === dialog.dataset.table);
      if (button) button.focus({preventScroll: true});
    });
  }
  main.addEventListener("click", event => {
    const button = event.target.closest("button[data-table]");
    if (button) openRows(button);
  });
  main.addEventListener("toggle", drawAll, true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    plots.clear();
    drawAll();
  });
  main.addEventListener("submit", event => {
    event.preventDefault();
    token = main.querySelector(".signin input").value.trim();
    try { sessionStorage.setItem(KEY, token); } catch (_) { /* for this view only */ }
    refresh();
  });

  drawAll();
  if (!live) return;
  addEventListener("hashchange", () => {
    token = storedToken();
    refresh();
  });
  document.addEventListener("visibilitychange", () => wake());
  (async () => {
    const form = main.querySelector(".signin");
    if (form && token) {
      form.hidden = true;
      form.hidden = await refresh();
    }
    for (;;) {
      await new Promise(resolve => { wake = resolve; setTimeout(resolve, EVERY_MS); });
      if (!document.hidden && !main.querySelector(".signin")) await refresh();
    }
  })();
})();

"use strict";
// Browse episodes with what agents say of them, ask agents side by side, see the curves of runs.

const $ = id => document.getElementById(id);
const state = {about: null, first: 0, total: 0, episode: null, values: null, place: null};

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null));
  return made;
}

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

async function api(path, body) {
  const options = body && {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
  const answer = await fetch(`api/${path}`, options);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || "the server did not understand this");
  return found;
}

// Every action of a visitor: says what went wrong, and that the page is busy meanwhile.
async function doing(work) {
  document.body.setAttribute("aria-busy", "true");
  try {
    await work();
    $("message").textContent = "";
  } catch (error) {
    $("message").textContent = error.message;
  }
  document.body.setAttribute("aria-busy", "false");
}

const number = (value, digits = 3) => value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
const short = value => {
  const size = Math.abs(value);
  if (value !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("-", "−");
  return String(Number(value.toPrecision(4))).replace("-", "−");
};
const signed = value => (value > 0 ? "+" : "") + short(value);

// --- tabs

const TABS = ["browse", "compare", "curves"];

function show(tab) {
  for (const name of TABS) {
    $(name).hidden = name !== tab;
    $(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
    $(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
  }
  if (tab === "curves") drawCurves();
}

function setUpTabs() {
  const there = {browse: state.about.data, compare: state.about.agents.length, curves: state.about.curves.length};
  const shown = TABS.filter(name => there[name]);
  for (const name of TABS) {
    const tab = $(`tab-${name}`);
    tab.hidden = !there[name];
    tab.addEventListener("click", () => show(name));
    tab.addEventListener("keydown", event => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      if (!step) return;
      const next = shown[(shown.indexOf(name) + step + shown.length) % shown.length];
      show(next);
      $(`tab-${next}`).focus();
    });
  }
  show(shown[0]);
}

// --- the list of episodes

async function list() {
  const query = new URLSearchParams({sort: $("sort").value, first: state.first});
  for (const side of ["low", "high"]) if ($(side).value !== "") query.set(side, $(side).value);
  const found = await api(`list?${query}`);
  const unit = state.about.data.unit;
  state.total = found.total;
  const last = found.first + found.rows.length;
  $("found").textContent = found.total
    ? `${(found.first + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${found.total.toLocaleString("en")} ${unit}s`
    : `no ${unit} earned that`;
  $("back").disabled = found.first === 0;
  $("forth").disabled = last >= found.total;
  $("rows").replaceChildren(...found.rows.map(row => el("li", {},
    el("button", {"data-row": row.row, "aria-current": String(state.episode?.row === row.row), onclick: () => doing(() => open(row.row))},
      el("b", {}, short(row.earned)), el("span", {}, row.title)))));
  histogram();
}

function histogram() {
  const {counts, edges} = state.about.data.histogram, most = Math.max(...counts, 1);
  const low = $("low").value === "" ? -Infinity : Number($("low").value);
  const high = $("high").value === "" ? Infinity : Number($("high").value);
  const width = 240 / counts.length;
  $("histogram").replaceChildren(...counts.map((count, bin) => {
    const tall = count ? Math.max(1.5, 38 * count / most) : 0;
    const bar = svg("rect", {x: bin * width + .5, y: 40 - tall, width: width - 1, height: tall});
    if (edges[bin + 1] >= low && edges[bin] <= high) bar.setAttribute("class", "in");
    return bar;
  }));
  $("histogram").setAttribute("aria-label",
    `Returns from ${short(edges[0])} to ${short(edges.at(-1))}, mean ${short(state.about.data.mean)}`);
}

function setUpList() {
  const again = () => doing(() => { state.first = 0; return list(); });
  for (const id of ["low", "high", "sort"]) $(id).addEventListener("change", again);
  $("filter").addEventListener("submit", event => { event.preventDefault(); again(); });
  $("back").addEventListener("click", () => doing(() => { state.first = Math.max(0, state.first - 50); return list(); }));
  $("forth").addEventListener("click", () => doing(() => { state.first += 50; return list(); }));
  $("rows").addEventListener("keydown", event => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    const all = [...$("rows").querySelectorAll("button")];
    const next = all[all.indexOf(document.activeElement) + step];
    if (!step || !next) return;
    event.preventDefault();
    next.focus();
  });
}

// --- one episode

async function open(row) {
  state.episode = await api(`episode?row=${row}`);
  for (const button of $("rows").querySelectorAll("button"))
    button.setAttribute("aria-current", String(Number(button.dataset.row) === row));
  state.values = null;
  await askValues();
  if (matchMedia("(max-width: 44rem)").matches) $("episode").scrollIntoView();
}

async function askValues() {
  if (!state.episode) return;
  if (state.about.agents.length) {
    try {
      state.values = await api(`values?row=${state.episode.row}&agent=${$("agent").value}`);
    } finally {
      drawEpisode();
    }
  } else drawEpisode();
}

function drawEpisode() {
  const {called, earned, behaviour, truncated, parts} = state.episode;
  $("title").textContent = `${called}: return ${short(earned)}`;
  const notes = [`played by ${behaviour}`, truncated ? "cut off" : "came to its end"];
  $("parts").replaceChildren(...parts.map(part => drawPart(part)));
  if (state.values && state.values.first > 0) notes.push(`${state.values.first} early turns are longer ago than the agent can read`);
  $("legend").textContent = `${notes.join(", ")}. ${state.values ? legend() : ""}`;
  $("detail").replaceChildren();
  $("hint").hidden = false;
}

function legend() {
  const told = {
    gap: "Blue: Q of the token is above V; orange: below.",
    pi: "The deeper the blue, the less likely the token was by the policy.",
    q: "Blue: Q above the mean of this episode; orange: below.",
    v: "Blue: V above the mean of this episode; orange: below.",
    none: "",
  };
  return told[$("colour").value];
}

function drawPart(part) {
  const tokens = part.turn === null || !state.values ? null : state.values.turns[part.turn - state.values.first] ?? null;
  const facts = [el("strong", {}, part.who)];
  if (part.reward) facts.push(el("span", {}, `reward ${signed(part.reward)}`));
  if (tokens) {
    const first = tokens[0], last = tokens.at(-1);
    if (first.v !== null) facts.push(el("span", {title: "the value of the history before the turn"}, `V ${number(first.v)}`));
    if (last.q !== null) facts.push(el("span", {title: "Q at the turn's last token, which knows the whole turn"}, `Q ${number(last.q)}`));
    const odds = tokens.reduce((sum, token) => sum + Math.log(token.pi ?? 1), 0);
    if (first.pi !== null) facts.push(el("span", {title: "of all its tokens together"}, `log π ${number(odds, 2)}`));
  }
  if (part.turn !== null && state.about.agents.length)
    facts.push(el("button", {onclick: () => askHere(part.turn)}, "Ask here"));
  const text = tokens ? drawTokens(tokens, `turn ${part.turn + 1}`) : el("div", {class: "text"}, part.text);
  return el("section", {class: part.turn === null ? "part" : "part turn"}, el("div", {class: "who"}, ...facts), text);
}

// A turn is one stop of the Tab key; the arrow keys move through its tokens.
function drawTokens(tokens, called, shades = shadesOf()) {
  const box = el("div", {class: "tokens text", tabindex: "0", role: "group", "aria-label": `tokens of ${called}; the arrow keys move through them`});
  const spans = tokens.map(token => {
    const isEnd = /^<\|.*\|>$|^<\/?s>$/.test(token.text);
    return el("span", {class: `${shades(token)}${isEnd ? " end" : ""}`}, token.text);
  });
  // Games have words with nothing between them.
  const glued = tokens.every(token => !/\s/.test(token.text)) && tokens.length > 1 && !state.about.agents.some(agent => agent.talks);
  spans.forEach((span, place) => {
    span.addEventListener("mouseenter", () => point(place));
    span.addEventListener("click", () => point(place));
    if (glued && place) box.append(" ");
    box.append(span);
  });
  let at = -1;
  function point(place) {
    for (const other of document.querySelectorAll(".tokens .on")) other.classList.remove("on");
    at = place;
    spans[place].classList.add("on");
    detail(tokens[place]);
  }
  box.addEventListener("keydown", event => {
    const next = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: spans.length - 1}[event.key];
    if (next === undefined || next < 0 || next >= spans.length) return;
    event.preventDefault();
    point(next);
  });
  box.addEventListener("focus", () => { if (at < 0 && box.matches(":focus-visible")) point(0); });
  return box;
}

const gap = token => token.q === null || token.v === null ? null : token.q - token.v;

function shadesOf() {
  const by = $("colour").value, all = state.values.turns.flat();
  const read = {gap, pi: token => token.pi, q: token => token.q, v: token => token.v, none: () => null}[by];
  const found = all.map(read).filter(value => value !== null);
  const mean = by === "gap" || !found.length ? 0 : found.reduce((a, b) => a + b, 0) / found.length;
  const most = Math.max(...found.map(value => Math.abs(value - mean)), 1e-9);
  return token => {
    const value = read(token);
    if (value === null) return "";
    if (by === "pi") return value > .9 ? "" : value > .5 ? "up1" : value > .1 ? "up2" : "up3";
    const share = (value - mean) / most, size = Math.abs(share);
    return size < .1 ? "" : `${share > 0 ? "up" : "down"}${size < .33 ? 1 : size < .66 ? 2 : 3}`;
  };
}

function detail(token) {
  $("hint").hidden = true;
  const facts = [["policy", token.pi === null ? "–" : `${number(100 * token.pi, 1)} %`], ["Q", number(token.q)], ["V before it", number(token.v)], ["Q − V", number(gap(token))]];
  const table = el("table", {}, el("tbody", {}, ...facts.map(([name, value]) => el("tr", {}, el("td", {}, name), el("td", {}, value)))));
  const children = [el("p", {}, el("code", {}, visible(token.text))), table];
  if (token.top.length) children.push(el("p", {class: "note"}, "The likeliest tokens there"), tokenTable(token));
  $("detail").replaceChildren(...children);
}

const visible = text => text.replaceAll("\n", "⏎\n").replace(/^ /, "␣") || "(part of a character)";

function tokenTable(token) {
  const rows = token.top.map(each => el("tr", {class: each.text === token.text ? "taken" : ""},
    el("td", {}, el("code", {}, visible(each.text))),
    el("td", {}, each.pi === null ? "–" : `${number(100 * each.pi, 1)} %`), el("td", {}, number(each.q))));
  return el("table", {}, el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "token"), el("th", {scope: "col"}, "policy"), el("th", {scope: "col"}, "Q"))), el("tbody", {}, ...rows));
}

// --- agents side by side

function askHere(turn) {
  state.place = {row: state.episode.row, turn};
  show("compare");
  drawPlace();
  $("tab-compare").focus();
  doing(ask);
}

function drawPlace() {
  const talks = state.about.agents.some(agent => agent.talks);
  $("typed").hidden = Boolean(state.place) || !talks;
  $("go").disabled = !state.place && !talks;
  if (!state.place) {
    $("place").textContent = talks ? "Write a message, or choose Ask here at a turn under Browse." : "Choose Ask here at a turn under Browse.";
    return;
  }
  const place = state.episode.parts.findIndex(part => part.turn === state.place.turn);
  const before = state.episode.parts[place - 1];
  $("place").replaceChildren(
    `In ${state.episode.called}, turn ${state.place.turn + 1}, after `, el("strong", {}, before ? before.who : "nothing"),
    before ? `: ${before.text.slice(0, 300)} ` : " ",
    ...(talks ? [el("button", {type: "button", onclick: () => { state.place = null; $("answers").replaceChildren(); drawPlace(); }}, "Write a message instead")] : []));
}

async function ask() {
  const how = {sample: $("sample").checked, seed: Number($("seed").value) || 0};
  if ($("beta").value !== "") how.beta = Number($("beta").value);
  if ($("candidates").value !== "") how.candidates = Number($("candidates").value);
  const chosen = [$("one").value, $("other").value].filter(value => value !== "");
  if (!state.place && !$("prompt").value.trim()) throw new Error("write a message first");
  const answers = [];
  for (const agent of chosen) {
    const who = {...how, agent: Number(agent)};
    answers.push([state.about.agents[agent], state.place
      ? await api("act", {...who, ...state.place})
      : await api("answer", {...who, system: $("system").value, prompt: $("prompt").value})]);
  }
  const logged = state.place && state.episode.parts.find(part => part.turn === state.place.turn);
  $("answers").replaceChildren(
    ...(logged ? [el("section", {class: "answer"}, el("h3", {}, "as it was logged"), el("div", {class: "text"}, logged.text), logged.reward ? el("p", {class: "note"}, `reward ${signed(logged.reward)}`) : null)] : []),
    ...answers.map(([agent, said]) => drawAnswer(agent, said)));
}

function drawAnswer(agent, said) {
  const children = [el("h3", {}, agent.name)];
  children.push(el("div", {class: "text"}, said.text || "(nothing)"));
  if (!said.finished) children.push(el("p", {class: "note"}, "cut off"));
  if (said.candidates.length) {
    children.push(el("p", {class: "note"}, `whole turns compared by Q at their end${said.v === null ? "" : `; V before them ${number(said.v)}`}`));
    const rows = said.candidates.map(each => el("tr", {class: each.is_chosen ? "taken" : ""},
      el("td", {}, `${each.is_chosen ? "▸ " : ""}${each.text}${each.is_finished ? "" : " (cut off)"}`), el("td", {}, number(each.q))));
    children.push(el("table", {}, el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "turn"), el("th", {scope: "col"}, "Q"))), el("tbody", {}, ...rows)));
  }
  const rows = said.tokens.map(token => el("tr", {}, el("td", {}, el("code", {}, visible(token.text))),
    el("td", {}, token.pi === null ? "–" : `${number(100 * token.pi, 1)} %`), el("td", {}, number(token.q)), el("td", {}, number(token.v)), el("td", {}, number(gap(token)))));
  children.push(el("details", {open: said.tokens.length <= 12}, el("summary", {}, "token by token"),
    el("table", {}, el("thead", {}, el("tr", {}, ...["token", "policy", "Q", "V", "Q − V"].map(name => el("th", {scope: "col"}, name)))), el("tbody", {}, ...rows))));
  return el("section", {class: "answer", "aria-label": agent.name}, ...children);
}

function setUpAgents() {
  const {agents} = state.about;
  $("looks").hidden = $("token").hidden = !agents.length;
  $("browse").classList.toggle("plain", !agents.length);
  const choices = () => agents.map((agent, place) => el("option", {value: place}, agent.name));
  $("agent").replaceChildren(...choices());
  $("one").replaceChildren(...choices());
  $("other").replaceChildren(...choices(), el("option", {value: ""}, "nobody"));
  if (agents.length) $("other").value = agents.length > 1 ? 1 : "";
  $("agent").addEventListener("change", () => doing(askValues));
  $("colour").addEventListener("change", () => { if (state.episode) drawEpisode(); });
  $("ask").addEventListener("submit", event => { event.preventDefault(); doing(ask); });
  if (agents.length && !agents[0].heads.includes("v")) $("colour").value = "pi";
  drawPlace();
}

// --- curves

let curves = null;

async function drawCurves() {
  if (!curves) await doing(async () => { curves = await api("curves"); });
  if (!curves) return;
  const runs = Object.keys(curves), only = $("only").value.trim().toLowerCase();
  $("runs").replaceChildren(...runs.map((run, place) => {
    const line = svg("svg", {viewBox: "0 0 40 10", "aria-hidden": "true"});
    line.append(svg("path", {d: "M0 5H40", class: `curve run${place % 6}`}));
    return el("li", {}, line, run);
  }));
  const names = [...new Set(runs.flatMap(run => Object.keys(curves[run])))].filter(name => name.toLowerCase().includes(only));
  $("panels").replaceChildren(...names.map(name => drawPanel(name, runs)));
}

function drawPanel(name, runs) {
  const lines = runs.map(run => curves[run][name]).map(line => line ? line.steps.map((step, i) => [step, line.values[i]]).filter(point => point[1] !== null) : []);
  const points = lines.flat(), xs = points.map(point => point[0]), ys = points.map(point => point[1]);
  const right = Math.max(...xs, 1), top = Math.max(...ys), bottom = Math.min(...ys), tall = top - bottom || 1;
  const x = step => 4 + 292 * step / right, y = value => 8 + 118 * (1 - (value - bottom) / tall);
  const plot = svg("svg", {viewBox: "0 0 300 146", role: "img", "aria-label": `${name} over the training steps`});
  for (const at of [8, 67, 126]) plot.append(svg("line", {x1: 0, x2: 300, y1: at, y2: at}));
  lines.forEach((line, place) => {
    if (!line.length) return;
    const drawn = line.length > 1 ? line : [[line[0][0] - right / 60, line[0][1]], [line[0][0] + right / 60, line[0][1]]];
    plot.append(svg("path", {d: "M" + drawn.map(([step, value]) => `${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("L"), class: `curve run${place % 6}`}));
  });
  const label = (text, attributes) => { const made = svg("text", attributes); made.textContent = text; plot.append(made); };
  if (points.length) {
    label(short(top), {x: 2, y: 18});
    label(short(bottom), {x: 2, y: 123});
    label(`step ${right.toLocaleString("en")}`, {x: 298, y: 141, "text-anchor": "end"});
  }
  const last = runs.map((run, place) => lines[place].length ? `${run}: ${short(lines[place].at(-1)[1])}` : null).filter(Boolean);
  return el("figure", {class: "panel"}, el("figcaption", {}, el("b", {}, name), `last ${last.join(", ")}`), plot);
}

// --- the beginning

doing(async () => {
  state.about = await api("about");
  const {data, agents} = state.about;
  $("name").textContent = [data && data.name.split("/").at(-1), ...agents.map(agent => agent.name)].filter(Boolean).join(" · ");
  setUpTabs();
  setUpAgents();
  $("only").addEventListener("input", drawCurves);
  if (!data) return;
  $("shelf").setAttribute("aria-label", `Choose a ${data.unit}`);
  setUpList();
  await list();
  if (state.total) await open(Number($("rows").querySelector("button").dataset.row));
});

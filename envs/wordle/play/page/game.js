"use strict";
// The page of a duel. The server keeps the games and the hidden words; here is only what is shown.

const LETTERS = ["qwertyuiop", "asdfghjkl", "zxcvbnm"];
const COLOURS = ["black", "yellow", "green"];
const COLOUR_KEYS = { b: 0, 0: 0, y: 1, 1: 1, g: 2, 2: 2 };
const WORST_VALUE = -3; // where a value's bar is empty: three more wrong guesses
const ABOUT = {
  race: "You and the model guess the same hidden word. Its board opens when both are done.",
  stump: "Think of a word; the model guesses it. It keeps to words that fit the colours.",
  watch: "The model plays alone. Look over its shoulder.",
};

const byId = (id) => document.getElementById(id);
const state = { mode: "race", view: null, entry: "", colours: [0, 0, 0, 0, 0], cursor: 0, shown: null,
                typing: false, waiting: [], busy: false, about: { words: [], name: "" }, turned: {} };

/** An element with properties and children; text is always set as text. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "role") element[name] = value;
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

async function post(what, body) {
  const answer = await fetch(`api/${what}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  const view = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(view.error || "that cannot be sent"), { gone: answer.status === 404 });
  return view;
}

function setBusy(isBusy) {
  state.busy = isBusy;
  byId("play").setAttribute("aria-busy", isBusy);
}

/** Send one move; keys pressed while it is under way wait for it, buttons are not taken. */
async function send(what, body = {}) {
  if (state.busy) return;
  setBusy(true);
  try {
    const game = state.view ? { game: state.view.game } : {};
    const before = state.view;
    state.view = await post(what, what === "new" ? { mode: state.mode, ...body } : { ...game, ...body });
    state.entry = "";
    if (what !== "judge") { state.colours = [0, 0, 0, 0, 0]; state.cursor = 0; }
    if (what === "back") state.colours = [...before.models[before.models.length - 1].colours];
    if (what === "new") state.turned = {};
    state.shown = null;
    if (state.view.over && what !== "judge") count(state.view);
    draw();
  } catch (error) {
    if (error.gone) { state.view = null; state.typing = false; }
    draw();
    say(error instanceof TypeError ? "The server does not answer." : capital(error.message));
    shake();
  } finally {
    setBusy(false);
    while (state.waiting.length && !state.busy) press(state.waiting.shift());
  }
}

function begin(mode) {
  if (state.busy) return;
  Object.assign(state, { mode, view: null, entry: "", shown: null, typing: mode === "stump" });
  draw();
  if (mode !== "stump") send("new");
}

// Keys, real ones and those on the screen.
const isColouring = () => state.view && state.view.said;
const asksWord = () => state.view && state.view.typed_colours && (state.view.stuck || (state.view.over && !state.view.won));
const takesLetters = () => state.typing || asksWord() || (state.mode === "race" && state.view && !state.view.over);

function press(key) {
  if (state.busy) return state.waiting.push(key);
  if (isColouring() && key in COLOUR_KEYS) {
    if (state.cursor < 5) state.colours[state.cursor++] = COLOUR_KEYS[key];
    return draw();
  }
  if (/^[a-z]$/.test(key) && takesLetters() && state.entry.length < 5) {
    state.entry += key;
    say("");
    return draw();
  }
  if (key === "backspace") {
    if (state.entry) { state.entry = state.entry.slice(0, -1); return draw(); }
    if (isColouring() && state.cursor > 0) { state.colours[--state.cursor] = 0; return draw(); }
    if (canTakeBack()) return send("back");
  }
  if (key === "enter") enter();
}

function enter() {
  const view = state.view;
  if (state.typing) return state.entry ? startStump(state.entry) : startStump(null);
  if (!view) return begin(state.mode);
  if (asksWord() && state.entry) return send("judge", { word: state.entry });
  if (view.over) return begin(state.mode);
  if (state.mode === "race") return send("guess", { word: state.entry });
  if (isColouring()) return send("colours", { colours: state.colours });
  if (!view.stuck) return send("step");
}

async function startStump(word) {
  state.typing = false;
  await send("new", { word });
  if (!state.view) { state.typing = true; state.entry = word ?? ""; }
}

const canTakeBack = () => state.view && state.view.typed_colours && state.view.models.length > 0;

// Drawing: the whole page from the state; tiles turn when their row is new.
function draw() {
  const { view, mode } = state;
  for (const tab of document.querySelectorAll("nav button")) tab.setAttribute("aria-selected", tab.dataset.mode === mode);
  byId("about").textContent = ABOUT[mode];
  const yours = view ? view.yours : [], models = view ? view.models : [];
  const isRace = mode === "race";
  byId("boards").classList.toggle("two", isRace);
  byId("right").hidden = !isRace;
  if (isRace) {
    drawBoard("left", "you", yours, { entry: view && !view.over ? state.entry : null });
    drawBoard("right", "the model", models, { hidden: view ? view.hidden : 0, isPickable: true });
  } else {
    const entry = state.typing ? state.entry : null;
    drawBoard("left", state.typing ? "your word" : "the model", models, { entry, said: view && view.said, isPickable: true });
  }
  drawKeyboard(isRace ? yours : models);
  drawActions();
  drawThinking(models);
  say(view ? prompt(view) : state.typing ? "Type your word, or keep it to yourself and colour the guesses." : "");
}

function prompt(view) {
  if (view.judged && !state.entry) return view.message;
  if (asksWord()) return `${view.judged ? "" : view.message} What was your word? ${state.entry.toUpperCase().padEnd(5, "_")}`;
  if (view.message) return view.message;
  if (view.said) return `It says ${view.said.word.toUpperCase()}. Tap the letters to colour them, or press g, y, b.`;
  if (view.mode === "race" && view.yours.length) {
    const left = view.yours[view.yours.length - 1].left;
    return left === 1 ? "1 word left." : `${left} words left.`;
  }
  if (view.answer) return `The word is ${view.answer.toUpperCase()}.`;
  return "";
}

function drawBoard(id, name, rows, { entry = null, hidden = 0, said = null, isPickable = false }) {
  const figure = byId(id);
  figure.querySelector("figcaption").textContent = name;
  const board = figure.querySelector(".board");
  board.replaceChildren();
  const isNew = (i) => i >= (state.turned[id] || 0);
  for (let i = 0; i < 6; i++) {
    const row = rows[i];
    const line = make("div", { className: "row" });
    const pending = i === rows.length;
    const word = row ? row.word : pending && said ? said.word : pending && entry !== null ? entry : "";
    for (let j = 0; j < 5; j++) {
      const letter = word[j] || "";
      const tile = make(pending && said ? "button" : "div", { className: "tile", textContent: letter });
      let colour = row ? row.colours[j] : pending && said ? state.colours[j] : undefined;
      if (colour !== undefined) {
        tile.dataset.colour = colour;
        tile.setAttribute("aria-label", `${letter}, ${COLOURS[colour]}`);
      } else if (letter) tile.classList.add("typed");
      if (row && isNew(i)) { tile.classList.add("turn"); tile.style.animationDelay = `${j * 0.16}s`; }
      if (pending && said) {
        tile.classList.add("pick");
        tile.addEventListener("click", () => { state.colours[j] = (state.colours[j] + 1) % 3; draw(); });
      }
      if (!row && i < hidden) tile.classList.add("hidden");
      line.append(tile);
    }
    line.append(make("span", { className: "left", textContent: row ? `${row.left} left` : "" }));
    if (row && isPickable) {
      line.classList.add("pickable");
      line.classList.toggle("chosen", i === state.shown);
      line.addEventListener("click", () => { state.shown = i; draw(); });
    }
    board.append(line);
  }
  state.turned[id] = rows.length;
}

function drawKeyboard(rows) {
  const best = {};
  for (const row of rows) [...row.word].forEach((letter, j) => { best[letter] = Math.max(row.colours[j], best[letter] ?? 0); });
  const keyboard = byId("keyboard");
  const button = (key, label, wide) => make("button", {
    textContent: label, className: wide ? "wide" : "", "data-key": key, "data-colour": wide ? undefined : best[key],
    "aria-label": best[key] === undefined ? label : `${label}, ${COLOURS[best[key]]}`,
    onclick: (event) => { event.currentTarget.blur(); press(key); },
  });
  keyboard.replaceChildren(...LETTERS.map((letters, i) => {
    const keys = [...letters].map((letter) => button(letter, letter, false));
    return make("div", {}, ...(i === 2 ? [button("enter", "Enter", true), ...keys, button("backspace", "\u232B", true)] : keys));
  }));
}

function drawActions() {
  const view = state.view, actions = [];
  const add = (label, act, isMain = false) => actions.push(make("button", { textContent: label, className: isMain ? "main" : "", onclick: (event) => { event.currentTarget.blur(); act(); } }));
  if (state.typing) {
    add("Guess my word", () => enter(), true);
    add("I colour its guesses", () => startStump(null));
  } else if (view && view.over) {
    add("Play again", () => begin(state.mode), true);
    add("Share", () => share(view));
  } else if (isColouring()) add("Confirm colours", () => enter(), true);
  else if (view && state.mode !== "race" && !view.stuck) add("Next guess", () => send("step"), true);
  if (asksWord()) add("Check my word", () => enter());
  if (canTakeBack()) add("Take back", () => send("back"));
  byId("actions").replaceChildren(...actions);
}

function drawThinking(models) {
  const guesses = [...models, ...(state.view && state.view.said ? [state.view.said] : [])];
  byId("thinking").classList.toggle("empty", guesses.length === 0);
  const shown = Math.min(state.shown ?? guesses.length - 1, guesses.length - 1);
  byId("guesses").replaceChildren(...guesses.map((guess, i) => make("button", {
    textContent: `${i + 1} ${guess.word}`, "aria-pressed": String(i === shown), onclick: () => { state.shown = i; draw(); },
  })));
  const body = byId("thoughts");
  if (shown < 0) {
    body.replaceChildren();
    byId("note").textContent = state.mode === "race" ? "Its thoughts are shown when the race is over." : "Its thoughts come with its first guess.";
    return;
  }
  const guess = guesses[shown];
  const before = shown === 0 ? state.view.total : guesses[shown - 1].left;
  const left = make("p", { className: "note", textContent: `Words left: ${before}${guess.left === undefined ? "" : ` \u2192 ${guess.left}`}` });
  const first = guess.thoughts[0].letters[0], hasQ = first.q !== null, hasV = guess.thoughts[0].v !== null;
  const heads = ["", first.policy === null ? "chance" : "policy", ...(hasQ ? ["Q"] : []), ...(hasV ? ["V"] : [])];
  const table = make("table", {}, make("tr", {}, ...heads.map((head) => make("th", { textContent: head }))));
  for (const thought of guess.thoughts) {
    thought.letters.forEach((letter, i) => {
      const row = make("tr", { className: `${i === 0 ? "first" : ""} ${letter.chosen ? "taken" : ""}` }, make("td", { className: "letter", textContent: letter.letter }));
      const share = letter.policy ?? letter.chance;
      row.append(meter("p", share, `${Math.round(100 * share)}%`));
      if (hasQ) row.append(meter("q", 1 - letter.q / WORST_VALUE, letter.q.toFixed(2)));
      if (hasV) row.append(i === 0 ? meter("v", 1 - thought.v / WORST_VALUE, thought.v.toFixed(2)) : make("td"));
      table.append(row);
    });
  }
  body.replaceChildren(left, table);
  const spent = state.view.milliseconds ? ` It answered in ${Math.round(state.view.milliseconds)} ms.` : "";
  byId("note").textContent = (hasQ ? "Q and V: the score it expects, minus one for each wrong guess to come; longer bars are better." : "It has learned to imitate: it has no values.") + spent;
}

function meter(kind, share, text) {
  const bar = make("b");
  bar.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  return make("td", {}, make("div", { className: `meter ${kind}` }, make("i", {}, bar), make("span", { textContent: text })));
}

function say(text) { byId("message").textContent = text; }
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
function shake() {
  const rows = document.querySelectorAll("#left .row");
  const row = rows[state.view && state.mode === "race" ? state.view.yours.length : 0];
  if (row) row.classList.add("shake");
}

// What is kept in this browser: the tally by opponent, and the contrast.
const storage = {
  read(name) { try { return JSON.parse(localStorage.getItem(name)); } catch { return null; } },
  write(name, value) { try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* a browser that keeps nothing */ } },
};
const noGames = () => ({ won: 0, drawn: 0, lost: 0, yours: Array(7).fill(0), models: Array(7).fill(0), stump: Array(7).fill(0) });
const tally = () => ({ ...noGames(), ...storage.read(`tally ${state.about.name}`) });
const counted = new Set();

function count(view) {
  if (counted.has(view.game) || view.mode === "watch") return;
  counted.add(view.game);
  const games = tally();
  const result = (rows) => (rows.length && rows[rows.length - 1].colours.every((c) => c === 2) ? rows.length - 1 : 6);
  if (view.mode === "race") {
    games[{ you: "won", model: "lost", nobody: "drawn" }[view.winner]]++;
    games.yours[result(view.yours)]++;
    games.models[result(view.models)]++;
  } else games.stump[result(view.models)]++;
  storage.write(`tally ${state.about.name}`, games);
}

function showDialog(title, ...children) {
  const dialog = byId("dialog");
  dialog.querySelector("h2").textContent = title;
  byId("dialog-body").replaceChildren(...children);
  if (!dialog.open) dialog.showModal();
}

function showTally() {
  const games = tally();
  const bars = (name, counts) => {
    const most = Math.max(1, ...counts);
    const cells = counts.flatMap((n, i) => {
      const bar = make("b", { textContent: n });
      bar.style.width = `${(100 * n) / most}%`;
      return [make("span", { textContent: i < 6 ? i + 1 : "lost" }), bar];
    });
    return [make("p", { textContent: name }), make("div", { className: "tally" }, ...cells)];
  };
  showDialog("Your games against it", make("p", { textContent: `Races: won ${games.won}, drawn ${games.drawn}, lost ${games.lost}` }),
    ...bars("Your guesses", games.yours), ...bars("Its guesses in the same races", games.models), ...bars("Its guesses at your words", games.stump));
}

async function share(view) {
  const text = make("textarea", { value: view.share, readOnly: true, id: "share-text", rows: 16 });
  let note = "Copy this text:";
  try { await navigator.clipboard.writeText(view.share); note = "Copied. Paste it anywhere:"; } catch { /* not allowed here */ }
  showDialog("Share", make("p", { textContent: note }), text);
  text.select();
  text.scrollTop = 0;
}

function contrast(isOn) {
  document.documentElement.classList.toggle("contrast", isOn);
  byId("contrast").setAttribute("aria-pressed", isOn);
  storage.write("contrast", isOn);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key === "Enter" ? "enter" : event.key === "Backspace" ? "backspace" : null;
  if (!key || (key === "enter" && document.activeElement.tagName === "BUTTON")) return;
  if (key === "backspace" || key === "enter") event.preventDefault();
  press(key);
});
for (const tab of document.querySelectorAll("nav button")) tab.addEventListener("click", () => { tab.blur(); begin(tab.dataset.mode); });
byId("contrast").addEventListener("click", (event) => { event.currentTarget.blur(); contrast(!document.documentElement.classList.contains("contrast")); });
byId("show-tally").addEventListener("click", showTally);
byId("show-words").addEventListener("click", () => showDialog(`The ${state.about.words.length} words it knows`, make("div", { className: "words", textContent: state.about.words.join(" ") })));
contrast(Boolean(storage.read("contrast")));
fetch("api/about").then((answer) => answer.json()).then((about) => {
  state.about = about;
  byId("name").textContent = `${about.name} (${about.answers} answers, ${about.decoding})`;
});
begin("race");

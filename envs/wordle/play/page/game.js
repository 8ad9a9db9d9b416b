// The page of a duel. The server keeps the games and the hidden words; here is only what is shown.

import { colourKeyboard, drawBoard, forgetTurns, makeKeyboard, spoken } from "./board.js";
import { count, share, showAnalysis, showHelp, showTally, showWords } from "./dialogs.js";
import { ask, byId, capital, kept, make, ofTab } from "./dom.js";
import { drawThinking } from "./thinking.js";

const MODES = ["daily", "race", "stump", "watch"];
const COLOUR_KEYS = { b: 0, 0: 0, y: 1, 1: 1, g: 2, 2: 2 };
const AUTO_MILLISECONDS = 1400; // between two guesses of a game that plays by itself
const ABOUT = {
  daily: "The word of the day, the same for everybody. The model guesses it too.",
  race: "You and the model guess the same hidden word. Its board opens when both are done.",
  stump: "Think of a word; the model guesses it. It keeps to words that fit the colours.",
  watch: "The model plays alone. Look over its shoulder.",
};

const NONE = [0, 0, 0, 0, 0];
const state = { mode: "race", view: null, entry: "", colours: NONE, cursor: 0, shown: null,
                typing: false, waiting: [], busy: false, auto: null, about: { name: "", answers: 0, day: 0 } };
const isRace = () => state.mode === "race" || state.mode === "daily";
const isColouring = () => Boolean(state.view && state.view.said);
const asksWord = () => Boolean(state.view && state.view.typed_colours && (state.view.stuck || (state.view.over && !state.view.won)));
const takesLetters = () => Boolean(state.typing || asksWord() || (isRace() && state.view && !state.view.over));
const canTakeBack = () => Boolean(state.view && state.view.typed_colours && state.view.models.length > 0);

function setBusy(isBusy) {
  state.busy = isBusy;
  byId("play").setAttribute("aria-busy", isBusy);
}

/** Send one move; keys pressed while it is under way wait for it, buttons are not taken. */
async function send(what, body = {}) {
  if (state.busy) return;
  setBusy(true);
  try {
    const before = state.view;
    state.view = await ask(what, what === "new" ? { mode: state.mode, ...body } : { game: before.game, ...body });
    state.entry = "";
    if (what !== "judge") { state.colours = NONE; state.cursor = 0; }
    if (what === "back") state.colours = [...before.models[before.models.length - 1].colours];
    if (what === "new") forgetTurns();
    state.shown = null;
    if (state.view.over && what !== "judge") count(state.view, state.about.name);
    draw();
    announce(before);
  } catch (error) {
    if (error.gone) { state.view = null; state.typing = false; }
    stopAuto();
    draw();
    say(error instanceof TypeError ? "The server does not answer." : capital(error.message));
    shake();
  } finally {
    setBusy(false);
    while (state.waiting.length && !state.busy) press(state.waiting.shift());
  }
}

/** Tell those who do not see the boards what has come. */
function announce(before) {
  const { yours, models } = state.view;
  const isSame = before && before.game === state.view.game;
  const rows = [...yours.slice(isSame ? before.yours.length : 0), ...models.slice(isSame ? before.models.length : 0)];
  byId("announce").textContent = rows.map(spoken).join(". ");
}

// Games outlast a reload: each mode's in this tab, the day's in this browser.
const keyOf = (mode) => `${mode} ${state.about.name}`;
function keep() {
  const { mode, view } = state;
  const game = view && { game: view.game, day: view.day, view: view.over ? view : null };
  ofTab.write("mode", mode);
  (mode === "daily" ? kept : ofTab).write(keyOf(mode), game);
}

/** Go on with the mode's game, or begin one. */
async function enterMode(mode) {
  stopAuto();
  Object.assign(state, { mode, view: null, entry: "", shown: null, colours: NONE, cursor: 0, typing: mode === "stump", waiting: [] });
  const game = (mode === "daily" ? kept : ofTab).read(keyOf(mode));
  const isCurrent = game && (mode !== "daily" || game.day === state.about.day);
  draw();
  if (!isCurrent) return begin(mode);
  setBusy(true);
  try { state.view = await ask("look", { game: game.game }); } catch { state.view = game.view; }
  setBusy(false);
  if (!state.view) return begin(mode);
  state.typing = false;
  draw();
}

function begin(mode) {
  if (state.busy) return;
  stopAuto();
  Object.assign(state, { mode, view: null, entry: "", shown: null, typing: mode === "stump" });
  draw();
  if (mode !== "stump") send("new");
}

function press(key) {
  if (state.busy) return state.waiting.push(key);
  if (isColouring() && key in COLOUR_KEYS) {
    if (state.cursor < 5) setColour(state.cursor++, COLOUR_KEYS[key]);
    return draw();
  }
  if (/^[a-z]$/.test(key) && takesLetters() && state.entry.length < 5) {
    state.entry += key;
    return draw();
  }
  if (key === "backspace") {
    if (state.entry) { state.entry = state.entry.slice(0, -1); return draw(); }
    if (isColouring() && state.cursor > 0) { setColour(--state.cursor, 0); return draw(); }
    if (canTakeBack()) return send("back");
  }
  if (key === "enter") enter();
}
const setColour = (place, colour) => { state.colours = state.colours.map((old, j) => (j === place ? colour : old)); };

function enter() {
  const view = state.view;
  if (state.typing) return startStump(state.entry || null);
  if (!view) return begin(state.mode);
  if (asksWord() && state.entry) return send("judge", { word: state.entry });
  if (view.over) return state.mode === "daily" ? undefined : begin(state.mode);
  if (isRace()) return send("guess", { word: state.entry });
  if (isColouring()) return send("colours", { colours: state.colours });
  if (!view.stuck) return send("step");
}

async function startStump(word) {
  state.typing = false;
  await send("new", { word });
  if (!state.view) {
    const why = byId("message").textContent;
    Object.assign(state, { typing: true, entry: word ?? "" });
    draw();
    say(why);
  }
}

// A game that plays by itself, as long as somebody looks.
function stopAuto() { clearTimeout(state.auto); state.auto = null; }
async function auto() {
  if (document.hidden) { stopAuto(); return draw(); }
  await send("step");
  if (state.auto === null) return;
  if (!state.view || state.view.over) stopAuto();
  else state.auto = setTimeout(auto, AUTO_MILLISECONDS);
  draw();
}
function toggleAuto() {
  if (state.auto !== null) stopAuto();
  else state.auto = setTimeout(auto, 0);
  draw();
}

// Drawing: the whole page from the state; tiles turn when their row is new.
function draw() {
  const { view, mode } = state;
  for (const tab of document.querySelectorAll("#tabs button")) {
    const isChosen = tab.dataset.mode === mode;
    tab.setAttribute("aria-selected", isChosen);
    tab.tabIndex = isChosen ? 0 : -1;
  }
  byId("play").setAttribute("aria-labelledby", `tab-${mode}`);
  byId("about").textContent = ABOUT[mode];
  const yours = view ? view.yours : [], models = view ? view.models : [];
  const guesses = [...models, ...(isColouring() ? [view.said] : [])];
  const shown = Math.min(state.shown ?? guesses.length - 1, guesses.length - 1);
  const choose = (i) => { state.shown = i; draw(); };
  const ofModel = { shown: state.shown, choose };
  byId("boards").className = isRace() ? (view && view.over ? "two open" : "two") : "one";
  byId("right").hidden = !isRace();
  if (isRace()) {
    drawBoard("left", mode === "daily" && view ? `you, day ${view.day}` : "you", yours, { entry: view && !view.over ? state.entry : null });
    drawBoard("right", "the model", models, { hidden: view ? view.hidden : 0, ...ofModel });
  } else {
    const pick = (j) => { setColour(j, (state.colours[j] + 1) % 3); draw(); };
    const entry = state.typing ? state.entry : null;
    const place = document.activeElement.dataset.place;
    drawBoard("left", state.typing ? "your word" : "the model", models, { entry, said: view && view.said, colours: state.colours, pick, ...ofModel });
    if (place) byId("left").querySelector(`[data-place="${place}"]`)?.focus();
  }
  colourKeyboard(isRace() ? yours : models, takesLetters());
  drawActions();
  const note = isRace() ? "Its thoughts are shown when the race is over." : "Its thoughts come with its first guess.";
  drawThinking(guesses, { total: view ? view.total : 0, shown, choose, milliseconds: view ? view.milliseconds : 0, note });
  say(view ? prompt(view) : state.typing ? "Type your word, or keep it to yourself and colour the guesses." : "");
  keep();
}

function prompt(view) {
  if (view.judged && !state.entry) return view.message;
  if (asksWord()) return `${view.judged ? "" : view.message} What was your word? ${state.entry.toUpperCase().padEnd(5, "_")}`;
  if (view.over && state.mode === "daily") return `${view.message} ${nextDay()}`;
  if (view.message) return view.message;
  if (view.said) return `It says ${view.said.word.toUpperCase()}. Tap the letters to colour them, or press g, y, b.`;
  if (isRace() && view.yours.length) {
    const left = view.yours[view.yours.length - 1].left;
    return left === 1 ? "1 word left." : `${left.toLocaleString("en")} words left.`;
  }
  if (view.answer) return `The word is ${view.answer.toUpperCase()}.`;
  return "";
}

function nextDay() {
  const minutes = Math.ceil((86400000 - (Date.now() % 86400000)) / 60000);
  const hours = Math.floor(minutes / 60);
  return `The next word comes in ${hours ? `${hours} h ` : ""}${minutes % 60} min.`;
}

/** Buttons for what can be done. One that stays is the same element, or a click on it could be lost. */
function drawActions() {
  const view = state.view, actions = [];
  const before = [...byId("actions").children];
  const add = (label, act, isMain = false) => {
    const button = before.find((old) => old.textContent === label) || make("button", { textContent: label });
    button.className = isMain ? "main" : "";
    button.onclick = act;
    actions.push(button);
  };
  if (state.typing) {
    add("Guess my word", () => enter(), true);
    add("I colour its guesses", () => startStump(null));
  } else if (view && view.over) {
    if (state.mode !== "daily") add("Play again", () => begin(state.mode), true);
    add("Analysis", analysis, state.mode === "daily");
    add("Share", () => share(view));
  } else if (isColouring()) add("Confirm colours", () => enter(), true);
  else if (view && !isRace() && !view.stuck) {
    add("Next guess", () => send("step"), true);
    add(state.auto === null ? "Play by itself" : "Pause", toggleAuto);
  }
  if (asksWord()) add("Check my word", () => enter());
  if (canTakeBack()) add("Take back", () => send("back"));
  if (actions.length === before.length && actions.every((button, i) => button === before[i])) return;
  const focused = before.find((button) => button === document.activeElement);
  byId("actions").replaceChildren(...actions);
  if (focused) (actions.find((button) => button === focused) || actions[0] || byId("play")).focus();
}

async function analysis() {
  setBusy(true);
  try { await showAnalysis(state.view); } catch (error) { say(capital(error.message)); } finally { setBusy(false); }
}

function say(text) { if (byId("message").textContent !== text) byId("message").textContent = text; }
function shake() {
  const rows = document.querySelectorAll("#left .row");
  rows[state.view && isRace() ? state.view.yours.length : 0]?.classList.add("shake");
}

function contrast(isOn) {
  document.documentElement.classList.toggle("contrast", isOn);
  byId("contrast").setAttribute("aria-pressed", isOn);
  kept.write("contrast", isOn);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key === "Enter" ? "enter" : event.key === "Backspace" ? "backspace" : null;
  if (!key || (key === "enter" && document.activeElement.tagName === "BUTTON")) return;
  if (key === "backspace" || key === "enter") event.preventDefault();
  press(key);
});
// A mouse or a finger leaves the focus where it was, so that Enter still enters a typed word.
document.addEventListener("mousedown", (event) => { if (event.target.closest("button") && !byId("dialog").open) event.preventDefault(); });
document.addEventListener("visibilitychange", () => { if (document.hidden && state.auto !== null) { stopAuto(); draw(); } });

function choose(mode) {
  if (state.busy || mode === state.mode) return;
  history.replaceState(null, "", `#${mode}`);
  enterMode(mode);
}
byId("tabs").addEventListener("click", (event) => { const tab = event.target.closest("button"); if (tab) choose(tab.dataset.mode); });
byId("tabs").addEventListener("keydown", (event) => {
  const now = MODES.indexOf(state.mode);
  const next = { ArrowRight: now + 1, ArrowLeft: now + 3, Home: 0, End: 3 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  choose(MODES[next % 4]);
  byId(`tab-${state.mode}`).focus();
});
byId("contrast").addEventListener("click", () => contrast(!document.documentElement.classList.contains("contrast")));
byId("show-help").addEventListener("click", () => showHelp(state.about));
byId("show-tally").addEventListener("click", () => showTally(state.about.name));
byId("show-words").addEventListener("click", () => showWords().catch(() => say("The server does not answer.")));
contrast(Boolean(kept.read("contrast")));
makeKeyboard(press);

async function start() {
  setBusy(true);
  try { state.about = await ask("about"); } catch { say("The server does not answer."); }
  setBusy(false);
  const { name, answers, decoding, day } = state.about;
  byId("name").textContent = `${name} (${answers.toLocaleString("en")} answers, ${decoding})`;
  const today = kept.read(keyOf("daily"));
  const isDone = today && today.day === day && today.view;
  const asked = location.hash.slice(1);
  enterMode(MODES.includes(asked) ? asked : ofTab.read("mode") || (isDone ? "race" : "daily"));
}
start();

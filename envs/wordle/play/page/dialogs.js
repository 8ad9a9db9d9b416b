// What opens over the page: how to play, the words, the tally, the text to share, the analysis.

import { ask, byId, capital, kept, make } from "./dom.js";

function show(title, ...children) {
  const dialog = byId("dialog");
  byId("dialog-title").textContent = title;
  byId("dialog-body").replaceChildren(...children);
  if (!dialog.open) dialog.showModal();
  byId("dialog-title").focus();
  dialog.scrollTop = 0;
}
const text = (content, className = "") => make("p", { textContent: content, className });
const heading = (content) => make("h3", { textContent: content });

export function showHelp(about) {
  const legend = (letter, colour, meaning) => make("li", {}, make("span", { className: "tile", "data-colour": colour, textContent: letter, "aria-hidden": "true" }), make("span", { textContent: meaning }));
  const item = (name, what) => make("li", {}, make("strong", { textContent: name }), ` ${what}`);
  show("How to play",
    text("Find the hidden five-letter word in six guesses. After each guess every letter has a colour:"),
    make("ul", { className: "legend" },
      legend("s", 2, "with a dot: correct, at its place"),
      legend("t", 1, "with a ring: elsewhere in the word"),
      legend("a", 0, "plain: not in the word, or no more often")),
    make("ul", {},
      item("Daily:", `you and the model guess the word of the day, the same for everybody who plays with its list of ${about.answers.toLocaleString("en")} answers. The next one comes at midnight UTC.`),
      item("Race:", "the same with a word drawn at random. The model's board opens when both are done."),
      item("Stump it:", "it guesses your word. Type one, or keep it to yourself and colour its guesses."),
      item("Watch:", "it plays alone, guess by guess or by itself.")),
    heading("What it thinks"),
    text("The policy has learned to play like the people whose games it read: simulated ones, unless it was trained on others. Its values have learned what a guess is worth: Q of a guess, V of the board before it, both as guesses to go. It plays what people might, as far as the values agree."),
    heading("The analysis"),
    text("After a game you see for each guess how many words were left, what it lost against the best one, and how lucky it was."),
    heading("Keys"),
    text("Letters, Enter and Backspace; when you colour its guesses: g correct, y elsewhere, b absent. The arrow keys go from one way to play to the next."));
}

export async function showWords() {
  const { words, answers } = await ask("words");
  const list = make("div", { className: "words", textContent: words.join(" ") });
  const filter = make("input", { type: "search", "aria-label": "Words that begin with", placeholder: "begins with", maxLength: 5, oninput: () => {
    const found = words.filter((word) => word.startsWith(filter.value.toLowerCase()));
    list.textContent = found.length ? found.join(" ") : "none";
  } });
  const hidden = answers === words.length ? "Any of them may be the hidden word." : `The first ${answers.toLocaleString("en")} may be the hidden word.`;
  show(`The ${words.length.toLocaleString("en")} words it knows`, text(`${hidden} You may guess some 11,000 words.`), filter, list);
}

const noGames = () => ({ won: 0, drawn: 0, lost: 0, yours: Array(7).fill(0), models: Array(7).fill(0), stump: Array(7).fill(0) });
const tally = (name) => ({ ...noGames(), ...kept.read(`tally ${name}`) });
const counted = new Set();

export function count(view, name) {
  if (counted.has(view.game) || view.mode === "watch") return;
  counted.add(view.game);
  const games = tally(name);
  const result = (rows) => (rows.length && rows[rows.length - 1].colours.every((c) => c === 2) ? rows.length - 1 : 6);
  if (view.mode === "race") {
    games[{ you: "won", model: "lost", nobody: "drawn" }[view.winner]]++;
    games.yours[result(view.yours)]++;
    games.models[result(view.models)]++;
  } else games.stump[result(view.models)]++;
  kept.write(`tally ${name}`, games);
}

export function showTally(name) {
  const games = tally(name);
  const bars = (title, counts) => {
    const most = Math.max(1, ...counts);
    const cells = counts.flatMap((n, i) => {
      const bar = make("b", { textContent: n });
      bar.style.width = `${(100 * n) / most}%`;
      return [make("span", { textContent: i < 6 ? i + 1 : "lost" }), bar];
    });
    return [heading(title), make("div", { className: "tally" }, ...cells)];
  };
  show("Your games against it", text(`Races: won ${games.won}, drawn ${games.drawn}, lost ${games.lost}`),
    ...bars("Your guesses", games.yours), ...bars("Its guesses in the same races", games.models), ...bars("Its guesses at your words", games.stump));
}

export async function share(view) {
  const link = `${location.origin}${location.pathname}${view.day === null ? "" : "#daily"}`;
  const content = `${view.share}\n${link}`;
  const area = make("textarea", { value: content, readOnly: true, id: "share-text", rows: 17, "aria-label": "Text to share" });
  let note = "Copy this text:";
  try { await navigator.clipboard.writeText(content); note = "Copied. Paste it anywhere:"; } catch { /* not allowed here */ }
  show("Share", text(note), area);
  area.select();
  area.scrollTop = 0;
}

export async function showAnalysis(view) {
  const told = await ask("analysis", { game: view.game });
  const boards = [["Your guesses", told.yours], ["Its guesses", told.models]].filter(([, guesses]) => guesses.length);
  show("Analysis", ...told.summary.map((line) => text(line, "summary")), ...boards.flatMap(([title, guesses]) => [heading(title), analysed(guesses)]), text(told.method, "note"));
}

function analysed(guesses) {
  const heads = ["guess", "words left", "expected", "luck", "lost", "best"];
  const rows = guesses.flatMap((guess) => {
    const isKnown = guess.lost !== null;
    const cells = [
      `${guess.before.toLocaleString("en")} \u2192 ${guess.is_right ? "found" : guess.after.toLocaleString("en")}`,
      guess.expected.toFixed(1),
      guess.luck === null ? "\u2013" : Math.round(100 * guess.luck),
      isKnown ? (Math.abs(guess.lost) < 0.005 ? "0" : guess.lost.toFixed(2)) : "\u2013",
      isKnown && guess.lost > 0.005 ? guess.best.toUpperCase() : "",
    ];
    const row = make("tr", {}, make("th", { scope: "row", textContent: guess.word.toUpperCase() }), ...cells.map((cell) => make("td", { textContent: cell })));
    return guess.sentence ? [row, make("tr", { className: "sentence" }, make("td", { colSpan: heads.length, textContent: capital(guess.sentence) }))] : [row];
  });
  return make("table", { className: "analysis" }, make("tr", {}, ...heads.map((head) => make("th", { scope: "col", textContent: head }))), ...rows);
}

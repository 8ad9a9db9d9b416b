// What the model thought at a guess: one sentence, then letter by letter.

import { byId, make, toGo } from "./dom.js";

const WORST = 3; // guesses to go beyond the last one at which a value's bar is empty

/** guesses: its own so far; total: the words possible at first; shown: which; choose: another. */
export function drawThinking(guesses, { total, shown, choose, milliseconds, note }) {
  const focused = byId("guesses").contains(document.activeElement);
  byId("guesses").replaceChildren(...guesses.map((guess, i) => make("button", {
    textContent: `${i + 1} ${guess.word}`, "aria-pressed": String(i === shown), onclick: () => choose(i),
  })));
  if (focused) byId("guesses").children[shown]?.focus();
  if (shown < 0) {
    byId("sentence").textContent = "";
    byId("thoughts").replaceChildren();
    byId("note").textContent = note;
    return;
  }
  const guess = guesses[shown], thoughts = guess.thoughts;
  const before = shown === 0 ? total : guesses[shown - 1].left;
  byId("sentence").textContent = guess.sentence;
  const hasQ = thoughts[0].letters[0].q !== null, hasV = thoughts[0].v !== null;
  byId("thoughts").replaceChildren(make("p", { className: "note", textContent: wordsLeft(guess, before) }), table(thoughts, hasQ, hasV));
  const spent = milliseconds ? ` It answered in ${Math.round(milliseconds)} ms.` : "";
  byId("note").textContent = (hasQ || hasV ? "Q and V: guesses that it expects to need, the right one included; longer bars are better." : "It has learned to imitate: it has no values.") + spent;
}

function wordsLeft(guess, before) {
  if (guess.left === undefined) return `Words left: ${before.toLocaleString("en")}`;
  const isRight = guess.colours.every((colour) => colour === 2);
  return `Words left: ${before.toLocaleString("en")} \u2192 ${isRight ? "found" : guess.left.toLocaleString("en")}`;
}

function table(thoughts, hasQ, hasV) {
  const share = thoughts[0].letters[0].policy === null ? "chance" : "policy";
  const heads = ["letter", share, ...(hasQ ? ["Q"] : []), ...(hasV ? ["V"] : [])];
  const rows = [make("tr", {}, ...heads.map((head, i) => make("th", { scope: "col" }, i ? head : make("span", { className: "unseen", textContent: head }))))];
  for (const thought of thoughts) {
    thought.letters.forEach((letter, i) => {
      const part = letter.policy ?? letter.chance;
      const cells = [make("th", { className: "letter", scope: "row", textContent: letter.letter }), meter("p", part, `${Math.round(100 * part)}%`)];
      if (hasQ) cells.push(value("q", letter.q));
      if (hasV) cells.push(i === 0 ? value("v", thought.v) : make("td"));
      rows.push(make("tr", { className: `${i === 0 ? "first" : ""} ${letter.chosen ? "taken" : ""}` }, ...cells));
    });
  }
  return make("table", {}, ...rows);
}

const value = (kind, score) => meter(kind, 1 - (toGo(score) - 1) / WORST, toGo(score).toFixed(2));

function meter(kind, share, text) {
  const bar = make("b");
  bar.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
  return make("td", {}, make("div", { className: `meter ${kind}` }, make("i", {}, bar), make("span", { textContent: text })));
}

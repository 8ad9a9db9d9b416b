// The boards and the keyboard.

import { byId, COLOURS, make } from "./dom.js";

const LETTERS = ["qwertyuiop", "asdfghjkl", "zxcvbnm"];
const turned = {}; // how many rows of each board have turned already

export const forgetTurns = () => { for (const id of Object.keys(turned)) delete turned[id]; };
const words = (count) => (count === 1 ? "1 word" : `${count.toLocaleString("en")} words`);

/** A guess with its colours, as it is read out. */
export function spoken(row) {
  return `${row.word.toUpperCase()}: ${[...row.word].map((letter, j) => `${letter.toUpperCase()} ${COLOURS[row.colours[j]]}`).join(", ")}; ${row.colours.every((colour) => colour === 2) ? "found" : `${words(row.left)} left`}`;
}

/** rows: played ones; entry: what is being typed; said: a guess to be coloured, by `pick`. */
export function drawBoard(id, name, rows, { entry = null, hidden = 0, said = null, colours = [], pick = null, shown = null, choose = null } = {}) {
  byId(`${id}-name`).textContent = name;
  const lines = [];
  for (let i = 0; i < 6; i++) {
    const row = rows[i], isPending = i === rows.length;
    if (row) lines.push(playedRow(row, i, i >= (turned[id] || 0), i === shown, choose));
    else if (isPending && said) lines.push(colouringRow(said.word, colours, pick));
    else lines.push(emptyRow(isPending ? entry || "" : "", i, i < hidden));
  }
  byId(id).querySelector(".board").replaceChildren(...lines);
  turned[id] = rows.length;
}

function playedRow(row, i, isNew, isShown, choose) {
  const tiles = [...row.word].map((letter, j) => {
    const tile = make("span", { className: isNew ? "tile turn" : "tile", textContent: letter, "data-colour": row.colours[j] });
    if (isNew) tile.style.animationDelay = `${j * 0.16}s`;
    return tile;
  });
  const isRight = row.colours.every((colour) => colour === 2);
  const count = make("span", { className: "left", textContent: isRight ? "" : `${row.left.toLocaleString("en")} left` });
  const line = make("div", { className: isShown ? "row chosen" : "row", role: "img", "aria-label": `Guess ${i + 1}, ${spoken(row)}` }, ...tiles, count);
  if (choose) { line.classList.add("pickable"); line.addEventListener("click", () => choose(i)); }
  return line;
}

function colouringRow(word, colours, pick) {
  const tiles = [...word].map((letter, j) => make("button", {
    className: "tile pick", textContent: letter, "data-colour": colours[j], "data-place": j,
    "aria-label": `${letter.toUpperCase()}, ${COLOURS[colours[j]]}`, onclick: () => pick(j),
  }));
  return make("div", { className: "row", role: "group", "aria-label": `It says ${word.toUpperCase()}: colour its letters` }, ...tiles);
}

function emptyRow(word, i, isHidden) {
  const tiles = [0, 1, 2, 3, 4].map((j) => make("span", { className: isHidden ? "tile hidden" : word[j] ? "tile typed" : "tile", textContent: word[j] || "" }));
  const told = isHidden ? { role: "img", "aria-label": `Guess ${i + 1}, hidden` } : word ? { role: "img", "aria-label": `Typed: ${word.toUpperCase()}` } : { "aria-hidden": "true" };
  return make("div", { className: "row", ...told }, ...tiles);
}

/** Made once, so that a key that has the focus keeps it. */
export function makeKeyboard(press) {
  const button = (key, label, isWide) => make("button", { textContent: label, className: isWide ? "wide" : "", "data-key": key, onclick: () => press(key) });
  byId("keyboard").replaceChildren(...LETTERS.map((letters, i) => {
    const keys = [...letters].map((letter) => button(letter, letter, false));
    return make("div", {}, ...(i === 2 ? [button("enter", "Enter", true), ...keys, button("backspace", "\u232B", true)] : keys));
  }));
  byId("keyboard").querySelector("[data-key=backspace]").setAttribute("aria-label", "Backspace");
}

export function colourKeyboard(rows, isNeeded) {
  const best = {};
  for (const row of rows) [...row.word].forEach((letter, j) => { best[letter] = Math.max(row.colours[j], best[letter] ?? 0); });
  byId("keyboard").hidden = !isNeeded;
  for (const key of byId("keyboard").querySelectorAll("button:not(.wide)")) {
    const colour = best[key.dataset.key];
    if (colour === undefined) { delete key.dataset.colour; key.removeAttribute("aria-label"); } else {
      key.dataset.colour = colour;
      key.setAttribute("aria-label", `${key.dataset.key}, ${COLOURS[colour]}`);
    }
  }
}

// Elements, the server, and what is kept in this browser.

export const byId = (id) => document.getElementById(id);
export const COLOURS = ["absent", "elsewhere", "correct"];

/** An element with properties and children; text is always set as text. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "role") element[name] = value;
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const seconds = (count) => new Promise((wake) => setTimeout(wake, 1000 * count));

/** Ask the server; when it has too much of us at once, wait and ask again. */
export async function ask(what, body) {
  const request = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let answer = await fetch(`api/${what}`, request);
  for (let tries = 0; answer.status === 429 && tries < 5; tries++) {
    await seconds(1 + Math.random());
    answer = await fetch(`api/${what}`, request);
  }
  const view = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(view.error || "that cannot be sent"), { gone: answer.status === 404 });
  return view;
}

function storage(where) {
  return {
    read(name) { try { return JSON.parse(where.getItem(name)); } catch { return null; } },
    write(name, value) { try { where.setItem(name, JSON.stringify(value)); } catch { /* a browser that keeps nothing */ } },
  };
}
/** For good: the tally, the word of the day, the contrast. */
export const kept = storage(window.localStorage);
/** As long as this tab is open: the games under way. */
export const ofTab = storage(window.sessionStorage);

/** A score to come as the guesses it takes, the right one included; estimates may be above 0. */
export const toGo = (value) => 1 - Math.min(0, value);
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

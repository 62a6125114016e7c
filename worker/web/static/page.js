// What is better with a little script: pages renew themselves when there is something new, and times are the reader's own.
// Without it every page works the same, in UTC; a reload shows what is new.
"use strict";

const AGO_EVERY_MS = 10000;
const AGAIN_MS = 30000;
const UNITS = [[86400, "day"], [3600, "h"], [60, "min"], [1, "s"]];
const main = document.querySelector("main");
const skew = Date.parse(document.body.dataset.now) - Date.now();

// times

function two(number) {
  return String(number).padStart(2, "0");
}

function local(at) {
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return { day, time: `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}` };
}

function passed(at) {
  const seconds = (Date.now() + skew - at) / 1000;
  const [size, name] = UNITS.find(([unit]) => Math.abs(seconds) >= unit) ?? UNITS[3];
  const count = Math.floor(Math.abs(seconds) / size);
  const words = `${count} ${name}${name === "day" && count !== 1 ? "s" : ""}`;
  return seconds < 0 ? `in ${words}` : `${words} ago`;
}

function tellTimes() {
  let day = "";
  for (const one of document.querySelectorAll("time[datetime], text[data-time]")) {
    const at = new Date(one.dataset.time ?? one.dateTime);
    if (Number.isNaN(at.getTime())) {
      continue;
    }
    const here = local(at);
    if (one.dataset.time === undefined) {
      one.textContent = `${here.day} ${here.time}`;
    } else {
      one.textContent = here.day === day ? here.time : `${here.day.slice(5)} ${here.time}`;
      day = here.day;
    }
  }
}

function tellAges() {
  for (const one of document.querySelectorAll("[data-ago]")) {
    const at = Date.parse(one.dataset.ago);
    if (!Number.isNaN(at)) {
      one.textContent = passed(at);
    }
  }
}

// What is typed as a time is the reader's own time, too; the address has it in UTC, for whoever it is sent to.
document.addEventListener("submit", (submitted) => {
  for (const one of submitted.target.querySelectorAll("input[data-moment]")) {
    const typed = one.value.trim();
    const edge = one.name === "until" ? "24:00" : "00:00"; // until a day is to its end
    const at = new Date(typed.length === 10 ? `${typed}T${edge}` : typed.replace(" ", "T"));
    if (/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?$/.test(typed) && !Number.isNaN(at.getTime())) {
      one.value = `${at.toISOString().slice(0, 19)}Z`;
    }
  }
});

// news

let shown = main.dataset.seen;
let newest = shown;
let source = null;

// A keyboard's focus counts too: what is taken away beneath it sends its reader back to the top of the page.
function busy() {
  const focused = document.activeElement;
  const chosen = document.getSelection();
  return (
    document.hidden ||
    main.querySelector("details.decide[open]") !== null ||
    (focused !== null && focused !== main && main.contains(focused) && focused.matches("input, select, button, :focus-visible")) ||
    (chosen !== null && !chosen.isCollapsed)
  );
}

function opened() {
  return [...main.querySelectorAll("details[open]")].map((one) => one.id).filter((id) => id !== "");
}

// Of the words that tell of news the first counts the log's records; the rest is the daemon's sign of life.
function isNews() {
  return main.dataset.live === "status" ? newest !== shown : newest.split(" ")[0] !== shown.split(" ")[0];
}

async function renew() {
  if (!isNews()) {
    return;
  }
  document.querySelector("#news").hidden = !busy();
  if (busy()) {
    return;
  }
  const answer = await fetch(location.href);
  if (!answer.ok) {
    return;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (fresh === null || busy()) {
    return;
  }
  const open = opened();
  main.replaceChildren(...fresh.childNodes);
  shown = fresh.dataset.seen;
  for (const id of open) {
    document.getElementById(id)?.setAttribute("open", "");
  }
  tellTimes();
}

function tryToRenew() {
  renew().catch(() => {}); // not reachable for a moment: what is shown stays, with its times
}

// A stream is a connection, of which a browser has six: a page that nobody looks at lets go of its own.
function watch() {
  source?.close();
  source = null;
  if (document.hidden) {
    return;
  }
  source = new EventSource("/news");
  source.onmessage = (message) => {
    newest = message.data;
    tryToRenew();
  };
  source.onerror = () => {
    if (source?.readyState === EventSource.CLOSED) {
      setTimeout(watch, AGAIN_MS); // too many watch
    }
  };
}

tellTimes();
tellAges();
setInterval(tellAges, AGO_EVERY_MS);
const zone = document.querySelector("#zone");
zone.textContent = `times are those of ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
if (main.dataset.live !== undefined) {
  watch();
  document.addEventListener("visibilitychange", watch);
  document.addEventListener("selectionchange", tryToRenew);
  main.addEventListener("toggle", tryToRenew, true);
  main.addEventListener("focusout", () => setTimeout(tryToRenew));
}

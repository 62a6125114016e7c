// What is better with a little script: the front page keeps itself current while nobody is busy on it.
// Without it every page works the same; a reload shows what is new.
"use strict";

const EVERY_MS = 5000;

function busy(main) {
  const focused = document.activeElement;
  const chosen = document.getSelection();
  return (
    document.hidden ||
    main.querySelector("details[open]") !== null ||
    (focused !== null && focused !== main && main.contains(focused)) ||
    (chosen !== null && !chosen.isCollapsed)
  );
}

async function renew(main) {
  if (busy(main)) {
    return;
  }
  const answer = await fetch(location.href, { headers: { "X-Renew": "1" } });
  if (!answer.ok) {
    return;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (fresh !== null && !busy(main)) {
    main.replaceChildren(...fresh.childNodes);
  }
}

const live = document.querySelector("main[data-live]");
if (live !== null) {
  setInterval(() => {
    renew(live).catch(() => {}); // not reachable for a moment: what is shown stays, with its times
  }, EVERY_MS);
}

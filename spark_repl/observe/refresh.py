"""Refresh: the one script of the served page. It asks for the page again and takes over what is
new, so that what a reader has opened, chosen or scrolled to stays. Without scripts the browser
loads it anew.

It makes no markup of its own: names are escaped in one place, where the page is made.
"""

from __future__ import annotations

EVERY_S = 5
SCRIPT = """
"use strict";
const main = document.querySelector("main"), said = document.getElementById("said");
let last = new Date(), wake = () => {};
const named = name => [...main.querySelectorAll("[data-name]")].find(e => e.dataset.name === name);
function take(page) {
  const kept = [...main.querySelectorAll("[data-name]")].map(
    e => [e.dataset.name, e.open, e.scrollLeft]);
  const at = document.activeElement.closest("[data-name]");
  document.title = page.title;
  main.replaceChildren(...page.querySelector("main").childNodes);
  for (const [name, open, left] of kept) {
    const element = named(name);
    if (element && open) element.open = true;
    if (element && left) element.scrollLeft = left;
  }
  const element = at && named(at.dataset.name);
  if (element) (element.querySelector("summary") || element).focus({preventScroll: true});
}
async function look() {
  try {
    const answer = await fetch("/", {cache: "no-store", signal: AbortSignal.timeout(15000)});
    if (!answer.ok) throw new Error("status " + answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (getSelection().isCollapsed) take(page);
    last = new Date();
    said.textContent = "";
  } catch (error) {
    said.textContent =
      "No answer since " + last.toLocaleTimeString() + " (" + error.message + "): this is of then.";
  }
}
document.addEventListener("visibilitychange", () => wake());
(async () => {
  for (;;) {
    await new Promise(resolve => { wake = resolve; setTimeout(resolve, EVERY_MS); });
    if (!document.hidden) await look();
  }
})();
""".replace("EVERY_MS", str(EVERY_S * 1000))

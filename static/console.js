// The console's own script: copying, relative times, shortcuts, pausing, and a YES that expires. It holds no words.
const root = document.documentElement;
root.dataset.js = "";
const words = new Intl.RelativeTimeFormat(root.lang, { numeric: "always", style: "narrow" });
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function tellTimes() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const seconds = Math.round((Date.parse(time.dateTime) - Date.now()) / 1000);
    const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units.at(-1);
    const text = words.format(Math.trunc(seconds / size), unit);
    if (time.textContent !== text) time.textContent = text;
  }
}

// How long a YES still holds is counted from when it came, by whichever clock ran further: the reader's may be wrong,
// and the other one may have slept.
const seen = new Map();
function expireVerdict() {
  const card = document.querySelector("[data-lasts]");
  if (!card) return;
  const key = card.dataset.until;
  if (!seen.has(key)) seen.set(key, [Date.now(), performance.now(), Number(card.dataset.lasts)]);
  const [wall, ticks, lasts] = seen.get(key);
  if (Math.max(Date.now() - wall, performance.now() - ticks) < lasts) return;
  if ("expired" in card.dataset) return;
  card.dataset.expired = "";
  if (live()?.matches("[data-poll]") && !paused()) window.htmx?.trigger(live(), "every");
}

const live = () => document.getElementById("live");
const paused = () => root.dataset.refresh === "off";
const typing = (target) => target.closest?.("input, select, textarea, [contenteditable]");

function look() {
  tellTimes();
  expireVerdict();
}
setInterval(look, 1000);
addEventListener("pageshow", look);
document.addEventListener("htmx:after:swap", look);
look();

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const said = document.getElementById("said");
  said.textContent = "";
  requestAnimationFrame(() => (said.textContent = said.dataset.copied));
  button.classList.add("done");
  setTimeout(() => button.classList.remove("done"), 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (!button) return;
  if (button.dataset.copy) copy(button.dataset.copy, button);
  if (button.dataset.copyFrom) copy(document.getElementById(button.dataset.copyFrom).textContent, button);
  if ("pause" in button.dataset) root.dataset.refresh = paused() ? "on" : "off";
});

// Refreshing by itself stops while paused or out of sight.
document.addEventListener("htmx:before:request", (event) => {
  if (event.target.matches?.("[data-poll]") && (document.hidden || paused())) event.preventDefault();
});
const lost = (is) => live()?.toggleAttribute("data-lost", is);
document.addEventListener("htmx:error", () => lost(true));
document.addEventListener("htmx:response:error", (event) => {
  if (event.detail?.ctx?.response?.status >= 500) lost(true);
});

function step(by) {
  const rows = [...document.querySelectorAll("tr[data-row]")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
  row?.querySelector("a, button")?.focus();
}

let going = 0;
document.addEventListener("keydown", (event) => {
  if (!("shortcuts" in root.dataset) || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (going > Date.now()) {
    going = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  switch (event.key) {
    case "/":
      event.preventDefault();
      document.querySelector("[data-lookup]")?.select();
      document.querySelector("[data-lookup]")?.focus();
      break;
    case "g": going = Date.now() + 1200; break;
    case "j": step(1); break;
    case "k": step(-1); break;
    case "?": document.getElementById("help")?.showModal(); break;
  }
});

// Filters for the ledger's cards and the table of the runs. Without this script everything stands.
// The state stands after the # of the address, so what is filtered can be linked: claims.html#finding=undecided
const NAMES = {
  part: "Part", finding: "Found", hardware: "Machine", tier: "Tier", code: "Code", since: "Measured since", sort: "Order",
};
const ORDERS = { "": "by chapter", date: "newest first", seconds: "longest first", memory: "most memory first" };

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-rebuilt-filter]").forEach(filtered);
});

function filtered(box) {
  const rows = [...box.querySelectorAll("[data-part]")];
  const fields = box.dataset.rebuiltFilter.split(" ");
  const form = document.createElement("form");
  form.className = "rebuilt-filter";
  form.setAttribute("aria-label", `Filter the ${box.dataset.noun}s`);
  const controls = Object.fromEntries(fields.map((name) => [name, control(form, name, rows)]));
  const reset = Object.assign(document.createElement("button"), { type: "reset", textContent: "Show all" });
  const count = document.createElement("p");
  count.setAttribute("role", "status");
  form.append(reset, count);
  box.prepend(form);

  const shown = () => {
    apply(box, rows, controls);
    count.textContent = told(box, rows);
  };
  const state = () => {
    const set = Object.entries(controls).filter(([, one]) => one.value).map(([name, one]) => [name, one.value]);
    const hash = new URLSearchParams(set).toString();
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    shown();
  };
  const read = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (location.hash && !fields.some((name) => asked.has(name))) return shown(); // an anchor of the page
    Object.entries(controls).forEach(([name, one]) => {
      one.value = asked.get(name) ?? "";
      if (one.selectedIndex === -1) one.selectedIndex = 0;
    });
    shown();
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", state);
  form.addEventListener("reset", () => setTimeout(state));
  window.addEventListener("hashchange", read);
  linkTotals(box);
  read();
}

function control(form, name, rows) {
  const label = document.createElement("label");
  label.append(NAMES[name]);
  const made = document.createElement(name === "since" ? "input" : "select");
  made.name = name;
  if (name === "since") made.type = "date";
  else if (name === "sort") Object.entries(ORDERS).forEach(([key, words]) => made.add(new Option(words, key)));
  else {
    made.add(new Option("all", ""));
    const values = new Set(rows.map((row) => row.dataset[name]).filter(Boolean));
    [...values].sort().forEach((value) => made.add(new Option(value, value)));
  }
  label.append(made);
  form.append(label);
  return made;
}

function apply(box, rows, controls) {
  const { since, sort, ...equal } = controls;
  for (const row of rows) {
    const other = Object.entries(equal).some(([name, one]) => one.value && row.dataset[name] !== one.value);
    row.hidden = other || (since?.value ? !(row.dataset.date >= since.value) : false);
  }
  if (sort) {
    const key = sort.value;
    const order = key === "date" ? (a, b) => (b.dataset.date ?? "").localeCompare(a.dataset.date ?? "")
      : (a, b) => (b.dataset[key] ?? 0) - (a.dataset[key] ?? 0);
    rows[0]?.parentNode.append(...(key ? [...rows].sort(order) : rows));
    return;
  }
  const some = (group, what) => [...group.querySelectorAll(what)].some((one) => !one.hidden);
  box.querySelectorAll(".rebuilt-claim").forEach((claim) => { claim.hidden = !some(claim, "[data-part]"); });
  box.querySelectorAll(".rebuilt-chapter").forEach((chapter) => { chapter.hidden = !some(chapter, ".rebuilt-claim"); });
}

function told(box, rows) {
  const noun = box.dataset.noun;
  const seen = rows.filter((row) => !row.hidden).length;
  if (noun === "run") return `${seen} of ${rows.length} runs shown.`;
  const groups = [...box.querySelectorAll(".rebuilt-claim")];
  const left = groups.filter((group) => !group.hidden).length;
  return `${left} of ${groups.length} ${noun}s shown, with ${seen} of ${rows.length} measurements.`;
}

function linkTotals(box) { // a number in the totals leads to its claims
  document.querySelectorAll("td[data-count]").forEach((cell) => {
    const [part, finding] = cell.dataset.count.split("|");
    if (cell.textContent === "0") return;
    const link = Object.assign(document.createElement("button"), { type: "button", textContent: cell.textContent });
    link.setAttribute("aria-label", `${cell.textContent} ${finding}${part ? ` in ${part}` : ""}: show them`);
    link.addEventListener("click", () => {
      location.hash = new URLSearchParams(part ? { part, finding } : { finding });
      box.scrollIntoView();
    });
    cell.replaceChildren(link);
  });
}

// What all chapters taught: choose a card, and see which figure and which order of the chapters belong to it. Without
// this script all figures stand one below the other, and the order is that of the first GPU.
document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-rebuilt-cards]").forEach(cards));

function cards(box) {
  const figures = [...box.querySelectorAll("figure[data-card]")];
  const list = box.querySelector("ol");
  const rows = [...list.children];
  const form = document.createElement("fieldset");
  form.append(Object.assign(document.createElement("legend"), { textContent: "Choose a card" }));
  for (const figure of figures) {
    const label = document.createElement("label");
    const radio = Object.assign(document.createElement("input"), { type: "radio", name: "rebuilt-card", value: figure.dataset.card });
    radio.addEventListener("change", () => choose(figure, true));
    label.append(radio, ` ${figure.dataset.name}`);
    form.append(label);
  }
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  box.prepend(form);
  list.before(status);

  function choose(figure, told) {
    const key = figure.dataset.card;
    const before = [...list.children];
    for (const one of figures) one.hidden = one !== figure;
    box.querySelector(".order strong").textContent = figure.dataset.name;
    const share = (row) => parseFloat(row.dataset[key]) || -1;
    for (const row of rows) {
      row.style.setProperty("--share", Math.max(share(row), 0));
      row.querySelector(".told").textContent = row.dataset[key].split("|")[1];
    }
    rows.sort((a, b) => share(b) - share(a) || a.dataset.place - b.dataset.place);
    list.append(...rows);
    const moves = rows.map((row, now) => ({ row, was: before.indexOf(row) + 1, now: now + 1 }));
    const far = moves.reduce((a, b) => (Math.abs(b.now - b.was) > Math.abs(a.now - a.was) ? b : a));
    const moved = moves.filter((one) => one.now !== one.was).length;
    const most = moved ? ` Farthest: ${far.row.querySelector("a").textContent}, from place ${far.was} to ${far.now}.` : "";
    status.textContent = told ? `${moved} of ${rows.length} chapters changed their place.${most}` : "";
  }
  rows.forEach((row) => (row.dataset.place = row.querySelector(".number").textContent));
  const first = figures.find((one) => one.dataset.card === "t4") || figures[0];
  form.querySelectorAll("input")[figures.indexOf(first)].checked = true;
  choose(first, false);
}

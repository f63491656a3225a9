// Chips that filter a gallery of chapters. Without this script the gallery is a plain list.
// What is chosen stands after the # of the address, so it can be linked: welcome.html#level=beginner
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-rebuilt-gallery]").forEach(chips);
});

function chips(gallery) {
  const NAMES = { part: "Topic", level: "Level", touch: "To touch", gpu: "GPU number" };
  const LEVELS = ["beginner", "intermediate", "advanced"];
  const cards = [...gallery.querySelectorAll("li")];
  const bar = Object.assign(document.createElement("div"), { className: "rebuilt-chips" });
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  const none = Object.assign(document.createElement("p"), { className: "none", hidden: true });
  const chosen = new URLSearchParams(location.hash.slice(1));
  const buttons = [];
  for (const name of gallery.dataset.rebuiltGallery.split(" ")) {
    const values = [...new Set(cards.map((card) => card.dataset[name]).filter(Boolean))];
    values.sort((a, b) => LEVELS.indexOf(a) - LEVELS.indexOf(b));
    const all = cards.every((card) => card.dataset[name] === values[0]);
    if (!values.length || all) continue; // a chip that every card or none answers says nothing
    const group = document.createElement("div");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", NAMES[name]);
    const label = Object.assign(document.createElement("span"), { textContent: NAMES[name] });
    label.setAttribute("aria-hidden", "true");
    group.append(label);
    for (const value of values) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: value });
      button.addEventListener("click", () => {
        if (chosen.get(name) === value) chosen.delete(name);
        else chosen.set(name, value);
        history.replaceState(null, "", `${location.pathname}${location.search}${chosen.size ? `#${chosen}` : ""}`);
        apply();
      });
      buttons.push({ name, value, button });
      group.append(button);
    }
    bar.append(group);
  }
  if (!buttons.length) return;
  for (const name of [...chosen.keys()])
    if (!buttons.some((one) => one.name === name && one.value === chosen.get(name))) chosen.delete(name);

  function apply() {
    for (const { name, value, button } of buttons) button.setAttribute("aria-pressed", String(chosen.get(name) === value));
    for (const card of cards) card.hidden = ![...chosen].every(([name, value]) => card.dataset[name] === value);
    const seen = cards.filter((card) => !card.hidden).length;
    status.textContent = chosen.size ? `${seen} of ${cards.length} chapters` : "";
    none.hidden = seen > 0;
    none.textContent = `No chapter is all of this: ${[...chosen].map(([name, value]) => `${NAMES[name]} ${value}`).join(", ")}.`;
  }
  bar.append(status);
  gallery.prepend(bar);
  gallery.append(none);
  apply();
}

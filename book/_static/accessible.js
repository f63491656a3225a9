// Small repairs of markup that the theme and docutils write, for screen readers; the page's switch for plumbing.
document.documentElement.classList.add("rebuilt-tidy"); // before anything is painted; without a script all cells stand
document.addEventListener("DOMContentLoaded", () => {
  // The button's visible words are its name; a shorter label would hide them.
  document.querySelectorAll(".search-button-field").forEach((button) => button.removeAttribute("aria-label"));
  // A list has list items.
  document.querySelectorAll(".citation-list > .citation").forEach((item) => item.setAttribute("role", "listitem"));
  // A label with an output in it names that, and not its slider.
  for (const input of document.querySelectorAll("label:has(output) input:not([aria-label])")) {
    input.setAttribute("aria-label", input.closest("label").firstChild.textContent.trim().replace(/:$/, ""));
  }
  // One switch shows the cells that only import, draw, print and record: above the contents and at the page's end.
  if (!document.querySelector(".tag_plumbing")) return;
  const boxes = [...document.querySelectorAll(".rebuilt-switch, .bd-sidebar-secondary nav.page-toc")].map((place) => {
    const box = Object.assign(document.createElement("input"), { type: "checkbox" });
    const label = Object.assign(document.createElement("label"), { className: "rebuilt-plumbing" });
    label.append(box, " Show plumbing");
    label.title = "Also show the cells that only import, draw, print and record";
    box.addEventListener("change", () => {
      document.documentElement.classList.toggle("rebuilt-tidy", !box.checked);
      for (const other of boxes) other.checked = box.checked;
    });
    place.prepend(label);
    return box;
  });
});

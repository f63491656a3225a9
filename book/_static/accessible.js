// Small repairs of markup that the theme and docutils write, for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  // The button's visible words are its name; a shorter label would hide them.
  document.querySelectorAll(".search-button-field").forEach((button) => button.removeAttribute("aria-label"));
  // A list has list items.
  document.querySelectorAll(".citation-list > .citation").forEach((item) => item.setAttribute("role", "listitem"));
});

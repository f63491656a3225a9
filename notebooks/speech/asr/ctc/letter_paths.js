// A word to touch: a letter is chosen for each step; repeats are dropped, then blanks. Beside the path's own
// probability stands that of all paths with the same text, which the loss is made of. Arrow keys move, Space chooses.
"use strict";
for (const root of document.querySelectorAll(".ctc-paths:not([data-ready])")) {
  const { said, letters, probs } = JSON.parse(root.dataset.grid);
  const blank = letters.length; // the last row
  const steps = probs[0].length;
  const names = [...letters, "–"];
  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const percent = (p) => (p >= 0.0005 ? `${(100 * p).toPrecision(p < 0.1 ? 2 : 3)} %` : p > 0 ? `${p.toExponential(0)}` : "0");

  const collapsed = (path) => path.filter((row, t) => row !== path[t - 1] && row !== blank);
  const along = (path) => path.reduce((product, row, t) => product * probs[row][t], 1);

  // All paths of a text: alpha[s] is the sum over paths that have come to place s of "-a-b-" so far.
  function all(text) {
    const places = [blank, ...text.flatMap((row) => [row, blank])];
    let alpha = places.map((row, s) => (s < 2 ? probs[row][0] : 0));
    for (let t = 1; t < steps; t += 1) {
      alpha = places.map((row, s) => {
        const jump = s > 1 && row !== blank && row !== places[s - 2]; // over the blank between two different letters
        return probs[row][t] * (alpha[s] + (alpha[s - 1] ?? 0) + (jump ? alpha[s - 2] : 0));
      });
    }
    return alpha.at(-1) + (alpha.at(-2) ?? 0);
  }

  const likeliest = Array.from({ length: steps }, (_, t) => names.reduce((best, _n, row) => (probs[row][t] > probs[best][t] ? row : best), 0));
  let path = [...likeliest];
  const cells = names.map((name, row) => probs[row].map((p, t) => make("button", { type: "button", tabIndex: -1, onclick: () => choose(row, t) })));
  const fields = { path: "your path", text: "collapses to", one: "this path", many: "all its paths", loss: "CTC loss" };
  const shown = Object.fromEntries(Object.keys(fields).map((key) => [key, make("dd", { className: key })]));

  function show() {
    cells.forEach((line, row) => line.forEach((cell, t) => {
      const on = path[t] === row;
      cell.setAttribute("aria-pressed", String(on));
      cell.setAttribute("aria-label", `step ${t + 1}, ${row === blank ? "blank" : letters[row]}, ${percent(probs[row][t])}`);
      cell.title = percent(probs[row][t]);
      cell.style.setProperty("--p", Math.sqrt(probs[row][t]).toFixed(3));
      cell.textContent = on ? names[row] : "";
    }));
    const text = collapsed(path);
    const sum = all(text);
    const words = text.map((row) => letters[row]).join("");
    shown.path.textContent = path.map((row) => names[row]).join("");
    shown.text.textContent = `“${words}”${words === said ? ", as was said" : ""}`;
    shown.one.textContent = percent(along(path));
    shown.many.textContent = percent(sum);
    shown.loss.textContent = sum > 0 ? (-Math.log(sum)).toFixed(2) : "infinite: no path is left";
    Object.assign(root.dataset, { text: words, one: along(path), many: sum });
  }

  function choose(row, t) {
    path[t] = row;
    focus(row, t);
    show();
  }

  function focus(row, t) {
    cells.flat().forEach((cell) => { cell.tabIndex = -1; });
    cells[row][t].tabIndex = 0;
    cells[row][t].focus({ preventScroll: true });
  }

  const table = make("div", { className: "grid" }, cells.flatMap((line, row) => [make("span", { textContent: names[row] }), ...line]));
  table.style.gridTemplateColumns = `1.2rem repeat(${steps}, minmax(0, 1fr))`;
  table.setAttribute("role", "group");
  table.setAttribute("aria-label", `probabilities of ${names.length} letters at ${steps} steps; arrow keys move`);
  table.addEventListener("keydown", (event) => {
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const row = cells.findIndex((line) => line.includes(event.target));
    if (!move || row < 0) return;
    event.preventDefault();
    const t = cells[row].indexOf(event.target) + move[1];
    focus((row + move[0] + names.length) % names.length, (t + steps) % steps);
  });
  const again = (words, made) => make("button", { type: "button", textContent: words, onclick: () => { path = made(); show(); } });
  const told = make("dl", { className: "told" }, Object.entries(fields).flatMap(([key, words]) => [make("dt", { textContent: words }), shown[key]]));
  told.setAttribute("aria-live", "polite");
  root.replaceChildren(
    make("p", { textContent: `Somebody says “${said}”. Choose a letter for each step of 20 ms; the darker, the more probable. “–” is the blank.` }),
    table, told,
    make("p", { className: "choices" }, [again("Best letter of each step", () => [...likeliest]), again("All blank", () => likeliest.map(() => blank))]),
  );
  cells[path[0]][0].tabIndex = 0;
  show();
  root.dataset.ready = "";
}

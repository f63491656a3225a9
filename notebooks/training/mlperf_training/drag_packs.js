// Sequences in packs: pick one, put it into another row, by dragging, tapping or keys; efficiency and masks follow.
// The element's data: `packs`, JSON {row: tokens of a row, most: sequences a row, lengths: [tokens], starts: {words:
// [row of each sequence]}}. Nothing but sums is computed here.
"use strict";
(() => {
  const element = document.querySelector(".drag-packs:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const COLOURS = ["#3b7dd8", "#e8871e", "#3a9a5b", "#9c4580", "#b5651d", "#4a9fb5", "#c0392b", "#7f8c3b"];
  function start() {
    const { row, most, lengths, starts } = JSON.parse(element.dataset.packs);
    for (const places of Object.values(starts)) {
      if (places.length !== lengths.length || !lengths.length) throw new Error("the sequences did not come with the page");
    }
    const choose = make("select", { style: "display:block;width:100%;min-height:2.2rem;font:inherit" },
      Object.keys(starts).map((value) => make("option", { value, textContent: value })));
    const words = make("p", { role: "status", style: "min-height:4.5em;margin:.4rem 0" });
    const rows = lengths.map((_, at) => {
      const here = make("button", { type: "button" });
      here.style.cssText = "font:inherit;font-size:.85rem;min-height:1.7rem;text-align:left;padding:0 .4rem;width:100%";
      const held = make("div", { style: "display:flex;min-height:1.9rem;border:1px solid;margin:2px 0" });
      const mask = make("canvas", { role: "img", width: 64, height: 64, style: "width:64px;height:64px;border:1px solid;flex:none" });
      const box = make("div", { role: "group", style: "display:flex;gap:6px;align-items:center;margin-bottom:4px" },
        [make("div", { style: "flex:1;min-width:0" }, [here, held]), mask]);
      here.addEventListener("click", () => put(at));
      box.addEventListener("dragover", (event) => event.preventDefault());
      box.addEventListener("drop", (event) => { event.preventDefault(); put(at); });
      return { here, held, mask, box };
    });
    const chips = lengths.map((length, at) => {
      const chip = make("button", { type: "button", draggable: true, textContent: length });
      chip.title = `sequence ${at + 1}: ${length} tokens`;
      chip.setAttribute("aria-label", chip.title);
      chip.style.cssText = `font:inherit;font-size:.75rem;min-width:0;padding:0;border:0;cursor:grab;color:#fff;background:${COLOURS[at % COLOURS.length]};text-shadow:0 0 2px #000;width:${100 * length / row}%`;
      chip.addEventListener("click", () => pick(at === picked ? null : at));
      chip.addEventListener("dragstart", (event) => {
        event.dataTransfer.setData("text/plain", String(length)); // without it, some browsers drag nothing
        pick(at);
      });
      return chip;
    });
    const app = make("section", {}, [make("label", {}, ["Start ", choose]), words, ...rows.map(({ box }) => box)]);
    let [places, picked, told] = [[], null, ""];
    const inRow = (at) => lengths.map((_, i) => i).filter((i) => places[i] === at);
    const tokens = (at) => inRow(at).reduce((sum, i) => sum + lengths[i], 0);
    function pick(at) {
      [picked, told] = [at, ""];
      draw();
    }
    function put(at) {
      if (picked === null) { told = "Pick a sequence first, then a row. "; return draw(); }
      const [moved, inside] = [picked, inRow(at).filter((i) => i !== picked)];
      const sum = inside.reduce((total, i) => total + lengths[i], 0) + lengths[moved];
      told = "";
      if (sum > row) told = `Does not fit: ${sum} tokens in a row of ${row}. `;
      else if (inside.length >= most) told = `Does not fit: at most ${most} sequences a row. `;
      else places[moved] = at;
      picked = null;
      draw();
      chips[moved].focus();
    }
    function paintMask(canvas, at, ink) {
      const paint = canvas.getContext("2d"), scale = 64 / row;
      paint.clearRect(0, 0, 64, 64);
      let [place, squares] = [0, 0];
      for (const i of inRow(at)) {
        paint.fillStyle = COLOURS[i % COLOURS.length];
        paint.fillRect(place * scale, place * scale, lengths[i] * scale, lengths[i] * scale);
        place += lengths[i];
        squares += lengths[i] ** 2;
      }
      canvas.style.borderColor = ink;
      canvas.setAttribute("aria-label", `Mask of row ${at + 1}: ${inRow(at).length} blocks, ${squares} of ${row * row} pairs attend`);
    }
    function draw() {
      try {
        const ink = getComputedStyle(app).color;
        rows.forEach(({ here, held, mask, box }, at) => {
          const [sum, inside] = [tokens(at), inRow(at)];
          here.textContent = inside.length ? `Row ${at + 1}: ${sum} of ${row} tokens` : `Row ${at + 1}: empty`;
          here.setAttribute("aria-label", `${picked === null ? "" : `Put ${lengths[picked]} tokens here. `}${here.textContent}`);
          box.setAttribute("aria-label", `Row ${at + 1}`);
          inside.forEach((i) => { if (chips[i].parentNode !== held) held.append(chips[i]); }); // a moved element loses the focus
          mask.style.visibility = inside.length ? "visible" : "hidden";
          paintMask(mask, at, ink);
        });
        chips.forEach((chip, at) => {
          chip.setAttribute("aria-pressed", String(at === picked));
          chip.style.outline = at === picked ? `3px solid ${ink}` : "";
        });
        const used = rows.filter((_, at) => inRow(at).length).length;
        const efficiency = 100 * lengths.reduce((sum, one) => sum + one, 0) / (used * row);
        const factor = lengths.length / used;
        words.textContent = `${told}${picked === null ? "" : `${lengths[picked]} tokens are picked; press a row, or type its number. `}`
          + `${used} rows: ${efficiency.toFixed(1)} % of the tokens are real, ${factor.toFixed(2)} sequences a row.`;
        element.dataset.state = "running";
        element.dataset.shown = [used, efficiency.toFixed(1), factor.toFixed(2)].join(" ");
      } catch (error) { failed(error); }
    }
    function reset() {
      [places, picked, told] = [[...starts[choose.value]], null, ""];
      draw();
    }
    choose.addEventListener("input", reset);
    app.addEventListener("keydown", (event) => {
      if (picked !== null && /^[1-9]$/.test(event.key) && Number(event.key) <= rows.length) put(Number(event.key) - 1);
      if (event.key === "Escape") pick(null);
    });
    element.replaceChildren(app);
    reset();
    new MutationObserver(draw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The packs cannot be moved here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

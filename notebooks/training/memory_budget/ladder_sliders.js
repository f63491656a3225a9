// Card, batch and resolution: which rungs of the ladder fit. The element's data: `ladder`, JSON {sides: [pixels],
// rungs: {name: [for each side, lines [bytes, bytes an image]]}}. The peak at a batch is the largest line there.
"use strict";
(() => {
  const element = document.querySelector(".ladder-sliders:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const CARDS = [0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24];
  const BATCHES = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
  const GB = 1e9;
  function start() {
    const { sides, rungs } = JSON.parse(element.dataset.ladder);
    if (!Object.values(rungs).length || Object.values(rungs).some((one) => one.length !== sides.length)) {
      throw new Error("the ladder did not come with the page");
    }
    const slider = (label, values, at, unit) => {
      const range = make("input", { type: "range", min: 0, max: values.length - 1, value: at, style: "width:100%;min-height:2rem" });
      const told = make("span", { style: "font-weight:600" });
      const box = make("div", {}, [`${label}: `, told, range]);
      range.setAttribute("aria-label", label);
      const value = () => values[Number(range.value)];
      const tell = () => { told.textContent = `${value()} ${unit}`; range.setAttribute("aria-valuetext", told.textContent); };
      range.addEventListener("input", draw);
      return { box, range, value, tell };
    };
    const card = slider("Room on the card", CARDS, CARDS.indexOf(2), "GB");
    const batch = slider("Batch", BATCHES, BATCHES.indexOf(32), "images");
    const side = slider("Resolution", sides, Math.max(0, sides.indexOf(180)), "pixels a side");
    const words = make("p", { role: "status", style: "min-height:3.2em;margin:.4rem 0" });
    const rows = Object.keys(rungs).map((name) => {
      const bar = make("div", { style: "height:.7rem;border-radius:2px" });
      const told = make("span", { style: "float:right" });
      const limit = make("div", { style: "position:absolute;left:66.6%;top:-2px;bottom:-2px;border-left:2px dashed" });
      const track = make("div", { style: "position:relative;border:1px solid;height:.8rem" }, [bar, limit]);
      const item = make("li", { style: "list-style:none;margin:.35rem 0" }, [name, told, track]);
      return { name, bar, told, item };
    });
    const list = make("ul", { style: "padding:0;margin:0" }, rows.map(({ item }) => item));
    list.setAttribute("aria-label", "Rungs of the ladder");
    const app = make("section", {}, [card.box, batch.box, side.box, words, list]);
    const peak = (name, images) => Math.max(...rungs[name][Number(side.range.value)].map(([fixed, each]) => fixed + each * images));
    function largest(name, room) {
      const fits = rungs[name][Number(side.range.value)].map(([fixed, each]) => (each > 0 ? (room - fixed) / each : fixed <= room ? Infinity : -1));
      return Math.max(0, Math.floor(Math.min(...fits)));
    }
    function draw() {
      try {
        const room = card.value() * GB;
        [card, batch, side].forEach((one) => one.tell());
        const lit = rows.filter(({ name, bar, told, item }) => {
          const bytes = peak(name, batch.value()), fits = bytes <= room;
          told.textContent = `${(bytes / GB).toPrecision(3)} GB, ${fits ? "fits" : "too much"}`;
          bar.style.width = `${Math.min(100, 66.6 * bytes / room)}%`;
          bar.style.background = fits ? "#3a9a5b" : "#c0392b";
          item.style.fontWeight = fits ? "600" : "400";
          return fits;
        });
        const first = rows[0].name;
        words.textContent = lit.length === rows.length ? `Every rung fits; the plain step takes up to ${largest(first, room)} images.`
          : lit.length ? `${lit.length} of ${rows.length} rungs fit. The plain step takes up to ${largest(first, room)} images here.`
            : "No rung fits alone. Take a smaller batch or resolution, or two rungs at once.";
        element.dataset.state = "running";
        element.dataset.shown = [lit.length, peak(first, batch.value()), largest(first, room)].join(" ");
      } catch (error) { failed(error); }
    }
    element.replaceChildren(app);
    draw();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The ladder cannot be shown here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

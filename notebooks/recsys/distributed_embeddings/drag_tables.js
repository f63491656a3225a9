// Pieces of tables on devices: pick one, put it elsewhere, by dragging, tapping or keys; memory and traffic follow.
// The element's data: `plan`, JSON {limit: GiB of a device, devices: count, starts: {words: [device of each piece]},
// pieces: [[name, GiB, MB sent in a step], …]}. Nothing but sums is computed here.
"use strict";
(() => {
  const element = document.querySelector(".drag-tables:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const { pieces, devices, limit, starts } = JSON.parse(element.dataset.plan);
    for (const places of Object.values(starts)) {
      if (places.length !== pieces.length || !pieces.length) throw new Error("the plan did not come with the page");
    }
    const largest = Math.max(...pieces.map(([, gib]) => gib));
    const choose = make("select", { style: "display:block;width:100%;min-height:2.2rem;font:inherit" },
      Object.keys(starts).map((value) => make("option", { value, textContent: value })));
    const rows = [...Array(devices).keys()].map((device) => {
      const here = make("button", { type: "button" });
      here.style.cssText = "font:inherit;font-size:.85rem;min-height:2rem;width:100%;text-align:left;padding:.1rem .4rem";
      const bars = make("div", { ariaHidden: "true" });
      const held = make("div", { style: "display:flex;flex-wrap:wrap;gap:3px;margin:2px 0 .5rem" });
      const box = make("div", { role: "group" }, [here, bars, held]);
      here.addEventListener("click", () => put(device));
      box.addEventListener("dragover", (event) => event.preventDefault());
      box.addEventListener("drop", (event) => { event.preventDefault(); put(device); });
      return { here, bars, held, box };
    });
    const words = make("p", { role: "status", style: "min-height:4.5em;margin:.4rem 0" });
    const chips = pieces.map(([name, gib, mb], at) => {
      const chip = make("button", { type: "button", draggable: true, textContent: name });
      chip.title = `${name}: ${size(gib)} GiB, ${mb.toFixed(1)} MB a step`;
      chip.setAttribute("aria-label", chip.title);
      const pad = 2 + 8 * Math.sqrt(gib / largest);
      chip.style.cssText = `font:inherit;font-size:.75rem;min-height:1.6rem;padding:0 ${pad}px;cursor:grab;border:1px solid;border-radius:3px`;
      chip.addEventListener("click", () => pick(at === picked ? null : at));
      chip.addEventListener("dragstart", (event) => {
        event.dataTransfer.setData("text/plain", name); // without it, some browsers drag nothing
        pick(at);
      });
      return chip;
    });
    const app = make("section", {}, [
      make("label", {}, ["Start with the tables dealt out ", choose]), words, ...rows.map(({ box }) => box),
    ]);
    let places = [], picked = null, moves = 0;
    function size(gib) { return gib < 0.05 ? "under 0.05" : gib.toFixed(1); }
    function pick(at) {
      picked = at;
      draw();
    }
    function put(device) {
      if (picked === null) return say("Pick a table first, then a device.");
      const moved = picked;
      moves += places[moved] !== device;
      places[moved] = device;
      picked = null;
      draw();
      chips[moved].focus();
    }
    function say(text) { words.textContent = text; }
    function draw() {
      try {
        const gib = Array(devices).fill(0), mb = Array(devices).fill(0);
        places.forEach((device, at) => { gib[device] += pieces[at][1]; mb[device] += pieces[at][2]; });
        const [most, busiest] = [Math.max(...gib), Math.max(...mb)];
        const ink = getComputedStyle(app).color;
        rows.forEach(({ here, bars, box }, device) => {
          const over = gib[device] > limit;
          here.textContent = `Device ${device}: ${size(gib[device])} GiB${over ? ", too much" : ""}; sends ${mb[device].toFixed(0)} MB of vectors`;
          here.setAttribute("aria-label", `${picked === null ? "" : `Put ${pieces[picked][0]} here. `}${here.textContent}`);
          here.style.fontWeight = over ? "bold" : "normal";
          box.setAttribute("aria-label", `Device ${device}`);
          const bar = (share, colour, pattern) => make("div", { style: `height:6px;margin:1px 0;width:${Math.min(100, 100 * share)}%;background:${pattern ? `repeating-linear-gradient(90deg,${colour} 0 6px,transparent 6px 9px)` : colour}` });
          bars.replaceChildren(bar(gib[device] / Math.max(limit, most), over ? "#c0392b" : "#3b7dd8"), bar(mb[device] / busiest, "#e8871e", true));
        });
        chips.forEach((chip, at) => {
          const home = rows[places[at]].held;
          if (chip.parentNode !== home) home.append(chip); // only then: a moved element loses the focus
          chip.setAttribute("aria-pressed", String(at === picked));
          chip.style.outline = at === picked ? `3px solid ${ink}` : "";
        });
        const full = gib.filter((one) => one > limit).length;
        const even = mb.reduce((sum, one) => sum + one, 0) / devices;
        say(`${picked === null ? `${moves} moved.` : `${pieces[picked][0]} is picked; press its device, or type its number.`} The fullest device holds ${size(most)} of ${limit.toFixed(1)} GiB`
          + `${full ? `: ${full} of ${devices} are too full, the plan does not run` : ""}. The busiest sends ${(busiest / even).toFixed(2)} times the mean, and all wait for it.`);
        element.dataset.state = "running";
        element.dataset.shown = [most.toFixed(2), busiest.toFixed(2), full].join(" ");
      } catch (error) { failed(error); }
    }
    function reset() {
      [places, picked, moves] = [[...starts[choose.value]], null, 0];
      draw();
    }
    choose.addEventListener("input", reset);
    app.addEventListener("keydown", (event) => {
      if (picked !== null && /^[0-9]$/.test(event.key) && Number(event.key) < devices) put(Number(event.key));
      if (event.key === "Escape") pick(null);
    });
    element.replaceChildren(app);
    reset();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The tables cannot be moved here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

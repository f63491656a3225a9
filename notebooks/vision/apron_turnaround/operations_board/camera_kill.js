// Kill a camera and watch what the board still knows. The element's data: `board`, JSON {step: minutes a place of the slider,
// steps, events: {camera: [[name, minute, minute at which it was known]]}, predicted: {"now a b": [median, low, high, chance of a delay]}}; a and b
// are the places at which A and B died, now + 1 for one that lives.
"use strict";
(() => {
  const element = document.querySelector(".camera-kill:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const { step, steps, events, predicted } = JSON.parse(element.dataset.board);
    if (!(steps > 1) || !events.A || !events.B) throw new Error("no events came with the page");
    const dead = { A: null, B: null };
    const range = make("input", { type: "range", min: 0, max: steps - 1, step: 1, value: Math.floor(steps / 2), style: "width:100%;min-height:2rem" });
    range.setAttribute("aria-label", "Minutes after the film begins");
    range.addEventListener("input", draw);
    const buttons = ["A", "B"].map((name) => {
      const one = make("button", { type: "button", style: "font:inherit;min-height:2.2rem;margin:.2rem .5rem .2rem 0;padding:.2rem .7rem" });
      one.addEventListener("click", () => { dead[name] = dead[name] === null ? Number(range.value) : null; draw(); });
      return one;
    });
    const words = make("p", { role: "status", style: "min-height:6.4em;margin:.4rem 0" });
    const body = make("tbody", {});
    const head = make("tr", {}, ["event", "minute", "known from"].map((name) => make("th", { textContent: name, scope: "col" })));
    const table = make("table", { style: "width:100%;border-collapse:collapse;font-size:.95em" }, [make("thead", {}, [head]), body]);
    const names = [...new Set([...events.A, ...events.B].sort((one, other) => one[1] - other[1]).map((one) => one[0]))];
    function draw() {
      const now = Number(range.value), minute = now * step;
      const died = (name) => (dead[name] !== null && dead[name] <= now ? dead[name] : null);
      const until = (name) => (died(name) === null ? minute : died(name) * step);
      range.setAttribute("aria-valuetext", `minute ${minute}`);
      buttons.forEach((one, at) => {
        const name = "AB"[at], gone = dead[name] !== null;
        one.textContent = gone ? `Camera ${name}: dead from minute ${dead[name] * step}; revive` : `Kill camera ${name} at minute ${minute}`;
        one.setAttribute("aria-pressed", gone);
      });
      const saw = (name, event) => events[name].find((one) => one[0] === event && one[2] <= until(name));
      const could = (name, event) => events[name].find((one) => one[0] === event && one[2] <= minute);
      let known = 0, lost = 0;
      body.replaceChildren(...names.flatMap((event) => {
        const by = ["A", "B"].filter((name) => saw(name, event));
        const missed = !by.length && ["A", "B"].some((name) => could(name, event));
        if (!by.length && !missed) return [];
        known += by.length > 0;
        lost += missed;
        const cells = [event, by.length ? `${saw(by[0], event)[1]}` : "–", by.length ? by.join(" and ") : "nobody: the camera was dead"];
        const row = make("tr", {}, cells.map((text) => make("td", { textContent: text, style: "border-bottom:1px solid;padding:.1rem .4rem .1rem 0" })));
        if (missed) row.style.fontStyle = "italic";
        return [row];
      }));
      const place = (name) => (died(name) === null ? now + 1 : died(name));
      const [middle, low, high, chance = 0] = predicted[`${now} ${place("A")} ${place("B")}`];
      const gone = ["A", "B"].filter((name) => died(name) !== null);
      const eyes = gone.length === 0 ? "Both cameras live." : gone.length === 1 ? `Camera ${gone[0]} is dead.` : "Both cameras are dead.";
      const left = middle <= minute + 0.05 && high - low < 0.2;
      words.textContent = `Minute ${minute}. ${eyes} ${known} events are known, ${lost} went unseen. `
        + (left ? `It left in minute ${middle.toFixed(1)}.` : `Off block is predicted in minute ${middle.toFixed(1)}, between ${low.toFixed(1)} and ${high.toFixed(1)}: an interval of ${(high - low).toFixed(1)} minutes.`)
        + (chance >= 0.5 && !left ? " Alert: more likely than not it leaves over five minutes after its target." : "");
      element.dataset.state = "running";
      element.dataset.shown = [minute, gone.join("") || "none", known, lost, middle, low, high, chance].join(" ");
    }
    element.replaceChildren(make("section", {}, [range, ...buttons, words, table]));
    draw();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The board cannot be shown here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

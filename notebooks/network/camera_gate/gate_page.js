// Move a gate before a detector. The element's data, `gates`: JSON {steps: shares in thousandths, clips: names, plate: for each
// clip and frame 1 where the plate is in view, seen: … where the detector would fire, gates: {name: for each clip and frame the step it passes from}}.
"use strict";
(() => {
  const element = document.querySelector(".gate-page:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const drawn = (tag, more) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(more).forEach(([name, value]) => made.setAttribute(name, value));
    return made;
  };
  function start() {
    const { steps, clips, plate, seen, gates } = JSON.parse(element.dataset.gates);
    const names = Object.keys(gates);
    if (!names.length || plate.length !== clips.length) throw new Error("the scores did not come with the page");
    const choice = make("select", { style: "min-height:2rem;max-width:100%" }, names.map((name) => make("option", { value: name, textContent: name })));
    choice.value = names[names.length - 1];
    const range = make("input", { type: "range", min: 0, max: steps.length - 1, value: 4, style: "width:100%;min-height:2rem" });
    range.setAttribute("aria-label", "Share of frames that pass the gate");
    const label = make("label", { style: "display:block;margin:.3rem 0" }, ["Gate ", choice]);
    const rows = clips.map((clip) => {
      const told = make("p", { style: "margin:.5rem 0 .1rem" });
      const strip = drawn("svg", { viewBox: `0 0 ${plate[0].length} 16`, preserveAspectRatio: "none", role: "img", style: "display:block;width:100%;height:1.6rem;border:1px solid" });
      return { clip, told, strip };
    });
    const words = make("p", { role: "status", style: "min-height:3.2em;margin:.4rem 0" });
    element.replaceChildren(make("section", {}, [label, range, words, ...rows.flatMap(({ told, strip }) => [told, strip])]));
    [choice, range].forEach((one) => one.addEventListener("input", draw));
    function draw() {
      const share = steps[Number(range.value)], verdicts = [];
      rows.forEach(({ clip, told, strip }, at) => {
        const from = gates[choice.value][at], passed = from.map((one) => one <= share);
        const looked = passed.filter((one, frame) => one && plate[at][frame]).length;
        const found = passed.some((one, frame) => one && seen[at][frame]);
        const marks = plate[at].map((one, frame) => one && drawn("rect", { x: frame, y: 0, width: 1, height: 5, fill: "#b5382a" }));
        const bars = passed.map((one, frame) => one && drawn("rect", { x: frame, y: 6, width: 1, height: 10, fill: seen[at][frame] ? "#2f8f55" : "#7a828c" }));
        strip.replaceChildren(...[...marks, ...bars].filter(Boolean));
        const count = plate[at].filter(Boolean).length, verdict = found ? "found" : "missed";
        told.textContent = `${clip}: ${verdict}; ${looked} of ${count} frames with the plate pass.`;
        strip.setAttribute("aria-label", `${passed.filter(Boolean).length} of ${passed.length} frames pass`);
        verdicts.push(verdict);
      });
      const missed = verdicts.filter((one) => one === "missed").length;
      words.textContent = `${share / 10} % of all frames pass; ${missed} of ${clips.length} events are missed. Above: the plate is in view. Below: what passes, green where the detector fires.`;
      range.setAttribute("aria-valuetext", `${share / 10} percent`);
      element.dataset.state = "running";
      element.dataset.shown = [choice.value, share, ...verdicts].join(" ");
    }
    draw();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The gates cannot be shown here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

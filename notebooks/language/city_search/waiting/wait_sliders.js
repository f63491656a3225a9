// A counter with impatient callers (Erlang A): move clerks, load, patience and what a machine answers, and see the wait.
// The element's data: `queue`, JSON {call_min: minutes a call lasts}.
"use strict";
(() => {
  const element = document.querySelector(".wait-sliders:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const drawn = (tag, attributes, inside = []) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...inside);
    return made;
  };
  // As waiting.erlang_a: the weights of having k callers, then their sums. Times in mean calls.
  function queue(servers, load, patience) {
    if (!(load > 0)) return { wait: 0, leaves: 0 };
    let weight = 1, total = 1, line = 0;
    for (let many = 1; many <= servers || weight > 1e-16 * total; many += 1) {
      weight *= load / (Math.min(many, servers) + Math.max(many - servers, 0) / patience);
      total += weight;
      line += weight * Math.max(many - servers, 0);
      if (total > 1e200) { weight /= total; line /= total; total = 1; }
    }
    return { wait: line / total / load, leaves: line / total / patience / load };
  }
  function start() {
    const { call_min: call } = JSON.parse(element.dataset.queue);
    if (!(call > 0)) throw new Error("no length of a call came with the page");
    const slider = (label, low, high, step, at, tell) => {
      const range = make("input", { type: "range", style: "width:100%;min-height:2rem" });
      Object.assign(range, { min: low, max: high, step, value: at });
      range.setAttribute("aria-label", label);
      range.addEventListener("input", draw);
      const told = make("span", { style: "font-weight:600" });
      const show = () => { told.textContent = tell(Number(range.value)); range.setAttribute("aria-valuetext", told.textContent); };
      return { box: make("div", {}, [`${label}: `, told, range]), show, value: () => Number(range.value) };
    };
    const clerks = slider("Clerks", 1, 30, 1, 10, (n) => `${n}`);
    const load = slider("Load", 30, 200, 5, 95, (n) => `${n} % of what the clerks can take`);
    const patience = slider("Patience", 1, 30, 1, 10, (n) => `${n} minutes before a caller hangs up, in the mean`);
    const answered = slider("Answered by text", 0, 90, 5, 30, (n) => `${n} % of the questions`);
    const wrong = slider("Wrong answers", 0, 100, 5, 0, (n) => `${n} % of those; they call after all`);
    const all = [clerks, load, patience, answered, wrong];
    const words = make("p", { role: "status", style: "min-height:4.6em;margin:.4rem 0" });
    const picture = drawn("svg", { viewBox: "0 0 420 190", role: "img", style: "width:100%;max-width:520px;color:inherit" });
    const minutes = (n) => (n < 1 ? `${(60 * n).toFixed(n < 1 / 6 ? 1 : 0)} seconds` : `${n.toFixed(1)} minutes`);
    function saved(percent) {
      const servers = clerks.value(), bears = patience.value() / call, before = servers * percent / 100;
      const left = before * (1 - answered.value() / 100 * (1 - wrong.value() / 100));
      const [now, then] = [queue(servers, before, bears), queue(servers, left, bears)];
      return { now, then, share: now.wait > 0 ? 1 - then.wait / now.wait : 0 };
    }
    function curve(here) {
      const [left, right, top, bottom] = [46, 410, 10, 150];
      const x = (percent) => left + (percent - 30) / 170 * (right - left), y = (share) => bottom - share * (bottom - top);
      const text = (at, to, said, anchor = "middle") => drawn("text", { x: at, y: to, "font-size": 11, fill: "currentColor", "text-anchor": anchor }, [said]);
      const rule = (x1, y1, x2, y2, dash = "") => drawn("line", { x1, y1, x2, y2, stroke: "currentColor", "stroke-width": 0.8, "stroke-dasharray": dash });
      const points = Array.from({ length: 35 }, (_, k) => 30 + 5 * k).map((percent) => `${x(percent).toFixed(1)},${y(saved(percent).share).toFixed(1)}`);
      const at = load.value();
      picture.replaceChildren(
        rule(left, bottom, right, bottom), rule(left, top, left, bottom), rule(left, y(0.9), right, y(0.9), "4 3"),
        ...[0, 0.5, 0.9].map((share) => text(left - 5, y(share) + 4, `${100 * share} %`, "end")),
        ...[50, 100, 150, 200].map((percent) => text(x(percent), bottom + 15, `${percent} %`, percent === 200 ? "end" : "middle")),
        text((left + right) / 2, bottom + 32, "load without the machine; upwards, wait saved"),
        drawn("polyline", { points: points.join(" "), fill: "none", stroke: "#2f7fd6", "stroke-width": 2.5 }),
        drawn("circle", { cx: x(at), cy: y(here.share), r: 5, fill: "#e8871e", stroke: "currentColor" }),
      );
      picture.setAttribute("aria-label", `Share of the wait that is saved, over load; ${(100 * here.share).toFixed(0)} % at a load of ${at} %`);
    }
    function draw() {
      try {
        all.forEach((one) => one.show());
        const here = saved(load.value()), [before, after] = [here.now, here.then].map((one) => one.wait * call);
        words.textContent = `A caller waits ${minutes(before)} without the machine and ${minutes(after)} with it: ${(100 * here.share).toFixed(0)} % of the wait and `
          + `${minutes(before - after)} are saved. ${(100 * here.now.leaves).toFixed(1)} % hang up without it, ${(100 * here.then.leaves).toFixed(1)} % with it.`;
        curve(here);
        element.dataset.state = "running";
        element.dataset.shown = [before, after, here.share].join(" ");
      } catch (error) { failed(error); }
    }
    element.replaceChildren(make("section", {}, [...all.map((one) => one.box), words, picture]));
    draw();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The queue cannot be shown here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

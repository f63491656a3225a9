// A map of work-group sizes: press a square to time it, in five guesses; then the tuner shows all.
// The element's data: `groups`, JSON {grid: [x, y, z], fast: [x, y, z], guesses: n, times: [[x, y, z, microseconds]]}.
"use strict";
(() => {
  const element = document.querySelector(".group-map:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const { grid, fast, guesses, times } = JSON.parse(element.dataset.groups);
    if (!times.length) throw new Error("no times came with the page");
    const best = times.reduce((one, other) => (other[3] < one[3] ? other : one));
    const worst = Math.max(...times.map((one) => one[3]));
    const axis = (at) => [...new Set(times.map((one) => one[at]))].sort((a, b) => a - b);
    const [xs, ys, zs] = [0, 1, 2].map(axis);
    const found = new Map(times.map((one) => [one.slice(0, 3).join(), one]));
    const same = (one, other) => one.slice(0, 3).join() === other.slice(0, 3).join();
    const words = make("p", { role: "status", style: "min-height:4.5em;margin:.4rem 0" });
    const all = make("button", { type: "button", textContent: "Let the tuner try all" });
    const again = make("button", { type: "button", textContent: "Begin again" });
    for (const one of [all, again]) one.style.cssText = "font:inherit;min-height:2.2rem;margin:0 .5rem .4rem 0;padding:0 .7rem";
    let [tried, shown] = [[], false];
    const cells = new Map();
    // Light to dark by the logarithm of the time over the best, in one hue: dark letters on light squares, white on dark.
    const paint = (time) => {
      const share = worst > best[3] ? Math.log(time / best[3]) / Math.log(worst / best[3]) : 0;
      return [`hsl(205 70% ${Math.round(88 - 62 * share)}%)`, share > 0.45 ? "#fff" : "#111"];
    };
    const table = (z) => {
      const rows = ys.map((y) => make("tr", {}, [
        make("th", { scope: "row", textContent: `y ${y}`, style: "font-weight:normal;padding:0 .3rem;text-align:right" }),
        ...xs.map((x) => {
          const one = found.get([x, y, z].join());
          const box = make("td", { style: "padding:1px;border:0;min-width:2.6rem;height:2.4rem" });
          if (!one) return box;
          const cell = make("button", { type: "button" });
          cell.addEventListener("click", () => guess(one));
          cells.set(one, cell);
          box.append(cell);
          return box;
        }),
      ]));
      const head = make("tr", {}, [make("td", { style: "border:0" }), ...xs.map((x) => make("th", { scope: "col", textContent: `x ${x}`, style: "font-weight:normal" }))]);
      return make("table", { style: "border-collapse:collapse;font-size:.75rem;display:inline-table;margin:0 .8rem .6rem 0;width:auto" },
        [make("caption", { textContent: `z ${z}`, style: "caption-side:top;text-align:left" }), make("thead", {}, [head]), make("tbody", {}, rows)]);
    };
    const maps = make("div", { style: "overflow-x:auto" }, zs.filter((z) => times.some((one) => one[2] === z)).map(table));
    const app = make("section", {}, [words, all, again, maps]);
    const told = (one) => `${one.slice(0, 3).join(" × ")} takes ${one[3].toFixed(0)} µs`;
    function guess(one) {
      if (!shown && !tried.includes(one) && tried.length < guesses) tried.push(one);
      draw(one);
    }
    function draw(last) {
      const mine = tried.length ? tried.reduce((one, other) => (other[3] < one[3] ? other : one)) : null;
      for (const [one, cell] of cells) {
        const open = shown || tried.includes(one);
        const [back, ink] = open ? paint(one[3]) : ["transparent", "inherit"];
        const mark = !open ? "?" : shown && same(one, best) ? "★" : shown && same(one, fast) ? "f" : (one[3] / best[3]).toFixed(2);
        cell.textContent = shown || !open ? mark : one[3].toFixed(0);
        const ring = tried.includes(one) ? "2px solid currentColor" : "1px solid #8a8f96";
        cell.style.cssText = `font:inherit;width:2.4rem;height:2.2rem;padding:0;cursor:pointer;background:${back};color:${ink};border:${ring}`;
        cell.setAttribute("aria-label", `${one.slice(0, 3).join(" × ")}: ${open ? `${one[3].toFixed(0)} microseconds` : "not timed yet"}`);
      }
      const left = guesses - tried.length;
      const now = last && (shown || tried.includes(last)) ? `${told(last)}. ` : "";
      if (shown) {
        const yours = mine ? `Your best is ${(mine[3] / best[3]).toFixed(2)} times the tuner's. ` : "";
        words.textContent = `${now}★ The tuner's best of ${times.length}: ${told(best)}. ${yours}f is what the rule guesses; the worst takes ${worst.toFixed(0)} µs. The other squares tell times over the best.`;
      } else if (left) {
        words.textContent = `${now}A grid of ${grid.join(" × ")} work items. ${left} guess${left === 1 ? "" : "es"} left: press a square. Numbers are microseconds; lighter is faster.`;
      } else words.textContent = `${now}Your best: ${told(mine)}. Now let the tuner try all ${times.length}.`;
      element.dataset.state = "running";
      element.dataset.shown = [tried.length, shown ? "all" : "some", mine ? mine[3] : "none"].join(" ");
    }
    all.addEventListener("click", () => { shown = true; draw(); });
    again.addEventListener("click", () => { [tried, shown] = [[], false]; draw(); });
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    maps.addEventListener("keydown", (event) => {
      const at = [...cells].find(([, cell]) => cell === event.target), move = moves[event.key];
      if (!at || !move) return;
      event.preventDefault();
      let [x, y] = [xs.indexOf(at[0][0]), ys.indexOf(at[0][1])];
      do { [x, y] = [x + move[0], y + move[1]]; } while (x >= 0 && y >= 0 && x < xs.length && y < ys.length && !found.has([xs[x], ys[y], at[0][2]].join()));
      const next = found.get([xs[x], ys[y], at[0][2]].join());
      if (next) cells.get(next).focus();
    });
    element.replaceChildren(app);
    draw();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The map cannot be shown here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

// One user's list under two sliders, exploration weight and cut-off age. All values come with the page; the script adds
// weight x deviation x draw to the score of each item that is younger than the cut-off, and sorts.
// The element's data: `campaign`, JSON {items: [{name, genres, days, mean, sd, draws: […]}], places, weight, cutoff, most}.
"use strict";
(() => {
  const element = document.querySelector(".campaign-sliders:not([data-state])");
  const make = (tag, more = {}, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const told = JSON.parse(element.dataset.campaign);
    const draws = told.items[0]?.draws.length;
    if (!draws || told.items.length < told.places) throw new Error("the values did not come with the page");
    const slider = (max, step, value, min = 0) => {
      const made = make("input", { type: "range", min, max, step });
      made.value = value;
      made.style.cssText = "display:block; width:100%; min-height:2.2rem";
      return made;
    };
    const weight = slider(1, 0.05, told.weight);
    const cutoff = slider(told.most, 0.5, told.cutoff, 0.5);
    const again = make("button", { type: "button", textContent: "Draw again" });
    again.style.cssText = "font:inherit; min-height:2.2rem; padding:.2rem .8rem";
    const [weightSays, cutoffSays] = [make("strong"), make("strong")];
    const list = make("ol");
    list.style.cssText = "padding-left:2rem; margin:.6rem 0";
    const words = make("p", { role: "status" });
    words.style.cssText = "min-height:3em; margin:.4rem 0";
    const label = (text, says, control) => {
      const made = make("label", {}, [`${text}: `, says, control]);
      made.style.cssText = "display:block; margin:.4rem 0";
      return made;
    };
    let draw = 0;
    let waiting = null;
    const explored = (item) => item.days < Number(cutoff.value); // exactly at the cut-off is too old
    const score = (item) => item.mean + (explored(item) ? Number(weight.value) * item.sd * item.draws[draw] : 0);
    const chance = (value) => `${(100 / (1 + Math.exp(-value))).toFixed(0)} %`;
    function row(item, score_) {
      const mark = make("strong", { textContent: explored(item) ? "explored" : item.days < told.most ? "young" : "old" });
      const moved = explored(item) && Number(weight.value) > 0 ? `, here drawn as ${chance(score_)}` : "";
      const age = item.days < told.most ? `${item.days.toFixed(1)} days old` : "an old item";
      return make("li", {}, [mark, ` ${item.name} (${item.genres}), ${age}: expected ${chance(item.mean)}${moved}`]);
    }
    function update() {
      try {
        const scored = told.items.map((item) => [score(item), item]).sort((a, b) => b[0] - a[0]).slice(0, told.places);
        list.replaceChildren(...scored.map(([value, item]) => row(item, value)));
        weightSays.textContent = Number(weight.value).toFixed(2);
        cutoffSays.textContent = `${Number(cutoff.value).toFixed(1)} days`;
        weight.setAttribute("aria-valuetext", weightSays.textContent);
        cutoff.setAttribute("aria-valuetext", cutoffSays.textContent);
        const count = scored.filter(([, item]) => explored(item)).length;
        const mean = scored.reduce((sum, [, item]) => sum + 1 / (1 + Math.exp(-item.mean)), 0) / scored.length;
        const text = `${count} of ${told.places} places go to items that are explored. By what is known now, a user who `
          + `looks at all of them clicks ${(100 * mean).toFixed(1)} % on average.`;
        element.dataset.shown = scored.map(([, item]) => item.name).join(" ");
        element.dataset.state = "running";
        clearTimeout(waiting);
        waiting = setTimeout(() => { words.textContent = text; }, 250); // spoken once the slider rests
      } catch (error) { failed(error); }
    }
    again.addEventListener("click", () => {
      draw = (draw + 1) % draws;
      update();
    });
    const app = make("section", {}, [
      label("Exploration weight", weightSays, weight), label("Cut-off age", cutoffSays, cutoff), again, words, list,
    ]);
    app.addEventListener("input", update);
    element.replaceChildren(app);
    update();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The list cannot be moved here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

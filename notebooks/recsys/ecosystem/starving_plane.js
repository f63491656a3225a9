// The plane of two topics with its providers: a slider for the boost's cap, one for the step. A disc is a provider, its
// area the documents it has now; a cross is one that had none in the last `window` steps. All values come with the page;
// nothing is computed but the drawing. The element's data: `plane`, JSON {places: [[x, y], …], caps: [number, …],
// steps: [number, …], window: number, documents: {cap: [[documents of each provider now, −1 where it had none in the
// window], one list a step]}, utility: {cap: [sum so far, one a step]}}.
"use strict";
(() => {
  const element = document.querySelector(".starving-plane:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const [ALIVE, DEAD] = ["#3b7dd8", "#c2571a"];
  function start() {
    const told = JSON.parse(element.dataset.plane);
    for (const cap of told.caps) {
      const frames = told.documents[cap] ?? [];
      if (frames.length !== told.steps.length || frames.some((one) => one.length !== told.places.length)) {
        throw new Error("the values did not come with the page");
      }
    }
    const slider = (count) => make("input", { type: "range", min: 0, max: count - 1, step: 1, value: 0 });
    const [cap, step] = [slider(told.caps.length), slider(told.steps.length)];
    step.value = step.max;
    const canvas = make("canvas", { role: "img" });
    canvas.style.cssText = "display:block; width:100%; max-width:420px; height:300px; margin:auto";
    for (const control of [cap, step]) control.style.cssText = "display:block; width:100%; min-height:2.2rem";
    const words = make("p", { role: "status", style: "min-height:4.5em; margin:.4rem 0" });
    const name = (text, control) => make("label", { style: "display:block; margin:.3rem 0" }, [text, control]);
    const app = make("section", {}, [name("Cap of the boost", cap), name("Step", step), canvas, words]);
    const reach = Math.max(...told.places.flat().map(Math.abs)) * 1.08;

    function draw(documents) {
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      const [paint, wide, high] = [canvas.getContext("2d"), canvas.clientWidth, canvas.clientHeight];
      [canvas.width, canvas.height] = [wide * ratio, high * ratio];
      paint.scale(ratio, ratio);
      const half = Math.min(wide, high) / 2 - 4;
      const at = ([x, y]) => [wide / 2 + (x / reach) * half, high / 2 - (y / reach) * half];
      [paint.strokeStyle, paint.globalAlpha, paint.lineWidth] = [getComputedStyle(app).color, 0.3, 1];
      paint.strokeRect(wide / 2 - half, high / 2 - half, 2 * half, 2 * half);
      told.places.forEach((place, provider) => {
        const [x, y] = at(place);
        paint.beginPath();
        if (documents[provider] >= 0) {
          paint.fillStyle = ALIVE;
          paint.arc(x, y, 1.5 + 1.6 * Math.sqrt(documents[provider]), 0, 7);
          paint.globalAlpha = 0.7;
          paint.fill();
          return;
        }
        [paint.strokeStyle, paint.lineWidth, paint.globalAlpha] = [DEAD, 1.6, 0.9];
        for (const sign of [1, -1]) {
          paint.moveTo(x - 3.5, y - 3.5 * sign);
          paint.lineTo(x + 3.5, y + 3.5 * sign);
        }
        paint.stroke();
      });
    }
    let waiting = null;
    function update() {
      try {
        const [height, when] = [told.caps[cap.value], Number(step.value)];
        const documents = told.documents[height][when];
        draw(documents);
        const [alive, now] = [0, 1].map((least) => documents.filter((count) => count >= least).length);
        const most = Math.max(...documents);
        const what = height ? `a cap of ${height}` : "no boost (myopic)";
        const text = `With ${what}, at step ${told.steps[when]}: ${alive} of ${documents.length} providers had documents in the `
          + `last ${told.window} steps, ${now} have some now, the largest ${most} of ${documents.reduce((a, b) => a + Math.max(b, 0), 0)}. `
          + `The mean user's utility so far: ${told.utility[height][when].toFixed(1)}.`;
        cap.setAttribute("aria-valuetext", what);
        step.setAttribute("aria-valuetext", `step ${told.steps[when]}`);
        canvas.setAttribute("aria-label", `Providers on the plane of two topics. ${text}`);
        element.dataset.state = "running";
        element.dataset.shown = `${height} ${told.steps[when]} ${alive}`;
        clearTimeout(waiting);
        waiting = setTimeout(() => { words.textContent = text; }, 250); // spoken once the slider rests
      } catch (error) { failed(error); }
    }
    app.addEventListener("input", update);
    element.replaceChildren(app);
    new ResizeObserver(update).observe(canvas);
    new MutationObserver(update).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The plane of providers cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

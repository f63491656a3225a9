// A few images that a reader splits at a radius: the parts are computed here, by the plain transform; what three networks
// answer was computed by the notebook's run and is looked up. The element's data: `images` and `table` (bytes as base64:
// image, row, column; network, raw or stretched, radius, low or high, image, class), `side` of an image, `labels` and
// `classes` and `modes` (JSON), `begin` (the radius at first), `mode` (the network at first).
"use strict";
(() => {
  const element = document.querySelector(".radius-slider:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const bytes = (name) => Uint8Array.from(atob(element.dataset[name]), (letter) => letter.charCodeAt(0));
    const [pixels, table, side] = [bytes("images"), bytes("table"), Number(element.dataset.side)];
    const [labels, classes, modes] = ["labels", "classes", "modes"].map((name) => JSON.parse(element.dataset[name]));
    const [count, area] = [labels.length, side * side];
    const radii = table.length / (modes.length * 4 * count * classes.length);
    if (pixels.length !== count * area || !Number.isInteger(radii) || radii < 2) {
      throw new Error("the images or the answers did not come whole");
    }
    const image = (which) => Float64Array.from(pixels.subarray(which * area, (which + 1) * area), (byte) => byte / 255);
    const half = Math.floor(side / 2);
    const wave = Array.from({ length: side }, (_, k) => [Math.cos((2 * Math.PI * k) / side), Math.sin((2 * Math.PI * k) / side)]);

    // The transform along both axes, each pass turning the picture by its diagonal; sign 1 is the inverse, not yet divided.
    function transform(real, imaginary, sign) {
      let parts = [real, imaginary];
      for (let pass = 0; pass < 2; pass += 1) {
        const [re, im] = [new Float64Array(area), new Float64Array(area)];
        for (let row = 0; row < side; row += 1) {
          for (let u = 0; u < side; u += 1) {
            let [a, b] = [0, 0];
            for (let x = 0; x < side; x += 1) {
              const [c, s] = wave[(u * x) % side];
              const [p, q] = [parts[0][row * side + x], parts[1][row * side + x]];
              a += p * c - sign * q * s;
              b += q * c + sign * p * s;
            }
            re[u * side + row] = a;
            im[u * side + row] = b;
          }
        }
        parts = [re, im];
      }
      return parts;
    }
    const spectra = new Map();
    function lowPart(which, radius) {
      if (!spectra.has(which)) spectra.set(which, transform(image(which), new Float64Array(area), -1));
      const frequency = (k) => ((k + half) % side) - half;
      const inside = (_, k) => frequency(Math.floor(k / side)) ** 2 + frequency(k % side) ** 2 < radius ** 2;
      const [re, im] = spectra.get(which).map((values) => values.map((value, k) => (inside(value, k) ? value : 0)));
      return transform(re, im, 1)[0].map((value) => value / area);
    }
    function stretched(values) {
      const peak = values.reduce((most, value) => Math.max(most, value), 0);
      return peak > 1e-5 ? values.map((value) => value / peak) : values;
    }

    let chosen = 0;
    const range = make("input", { type: "range", min: 0, max: radii - 1, step: 1, value: Number(element.dataset.begin) });
    const choose = make("select", {}, modes.map((words, value) => make("option", { value, textContent: words })));
    const rescale = make("input", { type: "checkbox" });
    choose.value = element.dataset.mode || 0;
    range.style.cssText = choose.style.cssText = "display:block; width:100%; min-height:2.2rem; font:inherit";
    rescale.style.cssText = "width:1.3rem; height:1.3rem; vertical-align:middle; margin-right:.5rem";
    const picture = (style, role) => {
      const canvas = make("canvas", { width: side, height: side, role });
      canvas.style.cssText = `${style}; image-rendering:pixelated; background:#000`;
      return canvas;
    };
    const paint = (canvas, values) => {
      const data = canvas.getContext("2d").createImageData(side, side);
      values.forEach((value, i) => {
        data.data.fill(Math.round(255 * Math.min(1, Math.max(0, value))), 4 * i, 4 * i + 3);
        data.data[4 * i + 3] = 255;
      });
      canvas.getContext("2d").putImageData(data, 0, 0);
    };
    const buttons = labels.map((label, which) => {
      const canvas = picture("width:100%; display:block", "presentation"); // the button around it has the words
      const button = make("button", { type: "button" }, [canvas]);
      button.setAttribute("aria-label", `image ${which + 1}: ${classes[label]}`);
      button.style.cssText = "padding:3px; border-radius:4px; cursor:pointer; min-width:0";
      button.addEventListener("click", () => { chosen = which; update(); });
      paint(canvas, image(which));
      return button;
    });
    const row = make("div", { role: "group" }, buttons);
    row.setAttribute("aria-label", "Image");
    row.style.cssText = `display:grid; grid-template-columns:repeat(${count}, minmax(0, 3.4rem)); gap:4px; margin:.3rem 0`;
    const shown = ["whole", "low part", "high part"].map((words) => {
      const canvas = picture("width:100%; display:block", "img");
      const caption = make("figcaption", { style: "font-size:.9em; line-height:1.3; min-height:4em" });
      return { words, canvas, caption, figure: make("figure", { style: "margin:0; min-width:0" }, [canvas, caption]) };
    });
    const figures = make("div", {}, shown.map(({ figure }) => figure));
    figures.style.cssText = "display:grid; grid-template-columns:repeat(3, minmax(0, 11rem)); gap:8px; margin:.4rem 0";
    const told = make("p", { role: "status", style: "min-height:3.5em; margin:.3rem 0" });
    const label = (words, control) => make("label", { style: "display:block; margin:.3rem 0" }, [words, control]);
    const current = make("span");
    const app = make("section", {}, [
      row, make("label", { style: "display:block" }, ["Radius ", current, range]), figures,
      label("Network", choose), make("label", { style: "display:block; margin:.3rem 0" }, [rescale, "divide each part by its largest value"]), told,
    ]);

    function answer(radius, part) { // the most probable class, its share, and the label's share
      const place = ((((choose.value * 2 + Number(rescale.checked)) * radii + radius) * 2 + part) * count + chosen) * classes.length;
      const shares = table.subarray(place, place + classes.length);
      const best = shares.reduce((most, share, k) => (share > shares[most] ? k : most), 0);
      return { best, share: shares[best] / 255, own: shares[labels[chosen]] / 255 };
    }
    let waiting = null;
    function update() {
      try {
        const radius = Number(range.value);
        const [whole, low] = [image(chosen), lowPart(chosen, radius)];
        const high = whole.map((value, i) => value - low[i]);
        const change = rescale.checked ? stretched : (values) => values;
        [whole, change(low), change(high)].forEach((values, i) => paint(shown[i].canvas, values));
        const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
        const words = [0, 1].map((part) => {
          const { best, share, own } = answer(radius, part);
          const right = best === labels[chosen];
          return `${classes[best]}, ${percent(share)}${right ? "" : ` (${classes[labels[chosen]]}: ${percent(own)})`}`;
        });
        shown[0].caption.textContent = `whole: ${classes[labels[chosen]]}`;
        words.forEach((one, i) => { shown[i + 1].caption.textContent = `${shown[i + 1].words}: ${one}`; });
        shown.forEach(({ canvas, caption }) => canvas.setAttribute("aria-label", caption.textContent));
        buttons.forEach((button, which) => {
          button.setAttribute("aria-pressed", which === chosen);
          button.style.outline = which === chosen ? "3px solid #3b7dd8" : "none";
        });
        current.textContent = String(radius);
        range.setAttribute("aria-valuetext", `radius ${radius}`);
        element.dataset.state = "running";
        element.dataset.answers = [0, 1].map((part) => answer(radius, part).best).join(" ");
        clearTimeout(waiting);
        waiting = setTimeout(() => { // spoken once the slider rests
          told.textContent = `At radius ${radius} the network answers the low part with ${words[0]}, the high part with ${words[1]}.`;
        }, 250);
      } catch (error) { failed(error); }
    }
    app.addEventListener("input", update);
    element.replaceChildren(app);
    update();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The radius slider cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

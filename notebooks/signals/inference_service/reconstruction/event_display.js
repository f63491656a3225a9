// An event of a time projection chamber that a reader moves over: the nearest hit's patch of 48 × 48 pixels is shown beside,
// with what the network said of it and what was true. The element's data: `wires`, `pixels`, of the image's runs, wire by wire,
// `lengths` and `levels` (uint16, bytes, as base64), `hits` (JSON: rows of wire, pixel, true kind or -1), `said` (JSON: percent
// of track, shower, nothing, Michel).
"use strict";
(() => {
  const element = document.querySelector(".event-display:not([data-state])");
  const SIDE = 48;
  const KINDS = ["a track", "a shower", "a Michel electron"];
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  // cividis, five points: dark blue to yellow, readable without red and green
  const STOPS = [[0, 32, 76], [64, 77, 108], [124, 123, 120], [186, 172, 106], [255, 233, 69]];
  const colour = (level) => {
    const at = Math.min(3.999, (level / 255) * 4);
    const [low, high] = [STOPS[Math.floor(at)], STOPS[Math.floor(at) + 1]];
    return low.map((value, i) => Math.round(value + (high[i] - value) * (at % 1)));
  };
  function start() {
    const [wires, pixels] = [Number(element.dataset.wires), Number(element.dataset.pixels)];
    const [hits, said] = [JSON.parse(element.dataset.hits), JSON.parse(element.dataset.said)];
    const [many, levels] = ["lengths", "levels"].map((name) => Uint8Array.from(atob(element.dataset[name]), (one) => one.charCodeAt(0)));
    const [image, lengths] = [new Uint8Array(wires * pixels), new Uint16Array(many.buffer)];
    const filled = levels.reduce((at, level, run) => image.fill(level, at, at + lengths[run]) && at + lengths[run], 0);
    if (filled !== wires * pixels || !hits.length) throw new Error("the event did not come with the page");

    const slider = (max) => make("input", { type: "range", min: 0, max, style: "display:block; width:100%; min-height:2.2rem" });
    const label = (words, control) => make("label", { style: "display:block; margin:.2rem 0" }, [words, control]);
    const [wireAt, timeAt] = [slider(wires - 1), slider(pixels - 1)];
    const [whole, patch] = [make("canvas", { role: "img" }), make("canvas", { role: "img" })];
    whole.style.cssText = "display:block; width:100%; height:300px; cursor:crosshair; touch-action:pan-y";
    patch.style.cssText = "display:block; width:150px; height:150px; image-rendering:pixelated; flex:none";
    const bars = make("div", { style: "flex:1; min-width:0" });
    const told = make("p", { role: "status", style: "min-height:3.4em; margin:.3rem 0" });
    const beside = make("div", { style: "display:flex; gap:.8rem; margin:.4rem 0" }, [patch, bars]);
    const app = make("section", {}, [whole, beside, label("Wire", wireAt), label("Time", timeAt), told]);

    const level = (wire, pixel) => (wire < 0 || pixel < 0 || wire >= wires || pixel >= pixels ? 0 : image[wire * pixels + pixel]);
    function picture(width, height, of) {
      const made = new ImageData(width, height);
      for (let x = 0; x < width; x += 1) {
        for (let y = 0; y < height; y += 1) made.data.set([...colour(of(x, height - 1 - y)), 255], 4 * (y * width + x));
      }
      return made;
    }
    const event = make("canvas", { width: wires, height: pixels });
    event.getContext("2d").putImageData(picture(wires, pixels, level), 0, 0);

    function nearest() {
      const [x, y] = [Number(wireAt.value), Number(timeAt.value)];
      const far = hits.map(([wire, pixel]) => (wire - x) ** 2 + (pixel - y) ** 2);
      return far.indexOf(Math.min(...far));
    }
    function draw(row) {
      const [wire, pixel] = hits[row];
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      const [wide, high] = [whole.clientWidth, whole.clientHeight];
      [whole.width, whole.height] = [wide * ratio, high * ratio];
      const paint = whole.getContext("2d");
      paint.scale(ratio, ratio);
      Object.assign(paint, { imageSmoothingEnabled: false, strokeStyle: "#ffffff", lineWidth: 1.5 });
      paint.drawImage(event, 0, 0, wide, high);
      const [left, top] = [((wire - SIDE / 2) / wires) * wide, (1 - (pixel + SIDE / 2) / pixels) * high];
      paint.strokeRect(left, top, (SIDE / wires) * wide, (SIDE / pixels) * high);
      [patch.width, patch.height] = [SIDE, SIDE];
      patch.getContext("2d").putImageData(picture(SIDE, SIDE, (x, y) => level(wire - SIDE / 2 + x, pixel - SIDE / 2 + y)), 0, 0);
    }
    const bar = (name, percent) => make("div", { style: "margin:.15rem 0" }, [
      make("div", { textContent: `${name}: ${percent} %` }),
      make("div", { style: `height:.5rem; background:#0066A6; width:${Math.max(1, percent)}%` }),
    ]);
    let waiting = null;
    function update() {
      try {
        const row = nearest();
        const [wire, pixel, truth] = hits[row];
        const [track, shower, nothing, michel] = said[row];
        draw(row);
        bars.replaceChildren(bar("track", track), bar("shower", shower), bar("nothing", nothing), bar("Michel", michel));
        const best = michel > 50 ? 2 : shower > track ? 1 : 0;
        const right = truth < 0 ? "Nothing was there." : `It was ${KINDS[truth]}.`;
        const words = `Hit at wire ${wire}, tick ${pixel * 6}: the network says ${KINDS[best]}. ${right}`;
        Object.assign(element.dataset, { state: "running", hit: row });
        whole.setAttribute("aria-label", words);
        patch.setAttribute("aria-label", `The patch around the hit at wire ${wire}, tick ${pixel * 6}`);
        clearTimeout(waiting);
        waiting = setTimeout(() => { told.textContent = words; }, 250); // spoken once the pointer rests
      } catch (error) { failed(error); }
    }
    const point = (where) => {
      wireAt.value = Math.round((where.offsetX / whole.clientWidth) * wires);
      timeAt.value = Math.round((1 - where.offsetY / whole.clientHeight) * pixels);
      update();
    };
    for (const kind of ["pointerdown", "pointermove"]) whole.addEventListener(kind, point);
    app.addEventListener("input", update);
    [wireAt.value, timeAt.value] = hits[Math.floor(hits.length / 2)];
    element.replaceChildren(app);
    new ResizeObserver(update).observe(whole);
  }

  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The event to move over cannot run here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

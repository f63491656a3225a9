// A mesh that a reader turns, and scrubs from the sphere to what was fitted: painted triangle after triangle, the nearest
// last. The element's data: `steps` (JSON), `scale`, and in base64 `faces` (16 bits), `vertices` and `colours` of each
// step, and the same of the mesh that is wanted.
"use strict";
(() => {
  const element = document.querySelector(".mesh-viewer:not([data-state])");
  const [FOCUS, DISTANCE] = [1 / Math.tan(Math.PI / 6), 2.7]; // as the cameras of the chapter
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const numbers = (name, Kind) => {
    const bytes = Uint8Array.from(atob(element.dataset[name] || ""), (letter) => letter.charCodeAt(0));
    return new Kind(bytes.buffer);
  };
  function start() {
    const [steps, scale] = [JSON.parse(element.dataset.steps), Number(element.dataset.scale)];
    const own = { faces: numbers("faces", Uint16Array), vertices: numbers("vertices", Int16Array) };
    own.colours = numbers("colours", Uint8Array);
    const car = { faces: numbers("wantedFaces", Uint16Array), vertices: numbers("wantedVertices", Int16Array) };
    car.colours = numbers("wantedColours", Uint8Array);
    const each = own.vertices.length / steps.length; // numbers of one look
    if (!own.faces.length || each % 3 || own.colours.length !== own.vertices.length) {
      throw new Error("the meshes did not come with the page");
    }
    const view = { azimuth: 0.6, elevation: 0.35 };
    const canvas = make("canvas", { tabIndex: 0 });
    canvas.setAttribute("role", "img");
    canvas.style.cssText = "display:block; width:100%; max-width:560px; height:320px; cursor:grab; touch-action:pan-y";
    const range = make("input", { type: "range", min: 0, max: steps.length - 1, step: 1, value: steps.length - 1 });
    const choose = make("select", {}, [
      make("option", { value: "both", textContent: "the fit, the wanted car beside it" }),
      make("option", { value: "own", textContent: "the fit alone" }),
      make("option", { value: "lines", textContent: "the fit's triangles" }),
    ]);
    range.style.cssText = choose.style.cssText = "display:block; width:100%; max-width:560px; min-height:2.2rem; font:inherit";
    const told = make("p", { role: "status", style: "margin:.4rem 0; min-height:3.2em" });
    const label = (words, control) => make("label", { style: "display:block; margin:.3rem 0" }, [words, control]);

    function placed(mesh, look) {
      const [sa, ca, se, ce] = [view.azimuth, view.elevation].flatMap((one) => [Math.sin(one), Math.cos(one)]);
      const count = mesh === own ? each : mesh.vertices.length;
      const points = new Float64Array(count);
      for (let i = 0; i < count; i += 3) {
        const [x, y, z] = [0, 1, 2].map((k) => mesh.vertices[look * each * (mesh === own) + i + k] / scale);
        const right = x * ca - z * sa;
        const along = x * sa + z * ca; // towards the camera, on the ground
        const depth = DISTANCE - along * ce - y * se;
        points.set([(FOCUS * right) / depth, (FOCUS * (y * ce - along * se)) / depth, depth], i);
      }
      return points;
    }
    function draw(paint, mesh, look, middle, size, lines) {
      const [points, colours] = [placed(mesh, look), mesh.colours];
      const order = Array.from({ length: mesh.faces.length / 3 }, (_, face) => {
        const corners = [0, 1, 2].map((k) => 3 * mesh.faces[3 * face + k]);
        return [corners.reduce((sum, at) => sum + points[at + 2], 0), corners];
      }).sort((a, b) => b[0] - a[0]);
      for (const [, corners] of order) {
        const [[ax, ay], [bx, by], [cx, cy]] = corners.map((at) => [points[at], points[at + 1]]);
        if ((bx - ax) * (cy - ay) - (by - ay) * (cx - ax) <= 0) continue; // seen from inside
        const shade = [0, 1, 2].map((k) => {
          const sum = corners.reduce((all, at) => all + colours[look * each * (mesh === own) + at + k], 0);
          return Math.round(sum / 3);
        });
        paint.beginPath();
        for (const at of corners) paint.lineTo(middle + points[at] * size, canvas.clientHeight / 2 - points[at + 1] * size);
        paint.closePath();
        paint.fillStyle = `rgb(${shade})`;
        paint.strokeStyle = lines ? "#888" : paint.fillStyle;
        paint.fill();
        paint.stroke();
      }
    }
    function show() {
      const [wide, high, dots] = [canvas.clientWidth, canvas.clientHeight, Math.min(window.devicePixelRatio || 1, 2)];
      [canvas.width, canvas.height] = [wide * dots, high * dots];
      const paint = canvas.getContext("2d");
      paint.scale(dots, dots);
      paint.lineWidth = 0.6;
      const [look, two] = [Number(range.value), choose.value === "both"];
      const size = Math.min(high / 2, wide / (two ? 4 : 2)) * 1.05;
      draw(paint, own, look, two ? wide / 4 : wide / 2, size, choose.value === "lines");
      if (two) draw(paint, car, 0, (3 * wide) / 4, size, false);
      const angles = [view.azimuth, view.elevation].map((one) => Math.round((one * 180) / Math.PI));
      const words = `Step ${steps[look]} of ${steps[steps.length - 1]}, seen from ${angles[0]}° around and ${angles[1]}° above.`;
      element.dataset.look = String(look);
      canvas.setAttribute("aria-label", `A mesh of ${own.faces.length / 3} triangles. ${words} Arrow keys turn it.`);
      told.textContent = words;
    }
    const safely = (act) => (event) => {
      try {
        act(event);
      } catch (error) {
        failed(error);
      }
    };
    const turn = (right, up) => {
      view.azimuth += right;
      view.elevation = Math.max(-1.5, Math.min(1.5, view.elevation + up));
      show();
    };
    const keys = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    canvas.addEventListener("keydown", safely((event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      turn(...keys[event.key]);
    }));
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", safely((event) => {
      if (event.buttons) turn(-event.movementX / 120, event.movementY / 120);
    }));
    range.addEventListener("input", safely(show));
    choose.addEventListener("change", safely(show));
    window.addEventListener("resize", safely(show));
    const app = make("section", {}, [canvas, label("From the sphere to the fit", range), label("Show", choose), told]);
    element.replaceChildren(app);
    show();
  }
  function failed(error) {
    element.replaceChildren(make("p", { textContent: `The viewer cannot run here: ${error.message}.` }));
    element.dataset.state = "failed";
  }
  try {
    element.dataset.state = "ready";
    start();
  } catch (error) {
    failed(error);
  }
})();

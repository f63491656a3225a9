// Move the cut through a signature. The element's data: `cuts`, JSON {text, signature: [begin, end], cuts: [for each cut
// from 1 on {alone: found by a packet alone, at: bytes that had come at the verdict, 0 for none, state: bytes carried}]}.
"use strict";
(() => {
  const element = document.querySelector(".packet-cut:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  function start() {
    const { text, signature: [begin, end], cuts } = JSON.parse(element.dataset.cuts);
    if (!text || cuts.length !== text.length - 1) throw new Error("the verdicts did not come with the page");
    const range = make("input", { type: "range", min: 1, max: cuts.length, value: begin + ((end - begin) >> 1), style: "width:100%;min-height:2rem" });
    range.setAttribute("aria-label", "Bytes in the first packet");
    const carried = make("input", { type: "checkbox", checked: false, style: "width:1.2rem;height:1.2rem;vertical-align:middle;margin-right:.4rem" });
    const label = make("label", { style: "display:inline-block;min-height:2rem;cursor:pointer" }, [carried, "Carry the state to the next packet"]);
    const boxes = [...text].map((letter, at) => {
      const box = make("span", { textContent: letter }); // a picture for a pointer; keys move the slider
      box.style.cssText = "font-family:monospace;width:1.55rem;line-height:2rem;text-align:center;border:1px solid;box-sizing:border-box;white-space:pre;cursor:pointer";
      box.addEventListener("click", () => { range.value = Math.max(1, at); draw(); });
      return box;
    });
    const strip = make("div", { style: "display:flex;flex-wrap:wrap;row-gap:.4rem;margin:.5rem 0" }, boxes);
    strip.setAttribute("role", "img");
    const words = make("p", { role: "status", style: "min-height:4.8em;margin:.4rem 0" });
    const app = make("section", {}, [strip, range, label, words]);
    range.addEventListener("input", draw);
    carried.addEventListener("change", draw);
    function draw() {
      const cut = Number(range.value), { alone, at, state } = cuts[cut - 1];
      const found = carried.checked ? at > 0 : alone;
      boxes.forEach((box, place) => {
        const part = place >= begin && place < end;
        box.style.marginLeft = place === cut ? ".8rem" : "0";
        box.style.borderStyle = place < cut ? "solid" : "dashed";
        box.style.fontWeight = part ? "700" : "400";
        box.style.background = part ? (found ? "#2f8f55" : "#b5382a") : "none";
        box.style.color = part ? "#fff" : "inherit";
      });
      const split = Math.min(Math.max(cut - begin, 0), end - begin);
      const where = split === 0 ? "The signature lies in the second packet."
        : split === end - begin ? "The signature lies in the first packet."
          : `The first packet ends with ${split} of the signature's ${end - begin} bytes.`;
      const verdict = found ? "Found" : "Missed";
      const how = carried.checked ? `${state} bytes of state cross the cut; the verdict comes with byte ${at}.`
        : found ? "One packet holds all of it." : "Neither packet holds all of it.";
      words.textContent = `${verdict}. ${where} ${how}`;
      strip.setAttribute("aria-label", `${text.length} bytes in two packets of ${cut} and ${text.length - cut}; the signature is ${found ? "found" : "missed"}`);
      range.setAttribute("aria-valuetext", `${cut} bytes`);
      element.dataset.state = "running";
      element.dataset.shown = [cut, carried.checked ? "carried" : "alone", verdict].join(" ");
    }
    element.replaceChildren(app);
    draw();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The cut cannot be shown here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

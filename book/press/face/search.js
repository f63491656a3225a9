// The search: sections with the words that were typed, as a phrase first. The index comes by search-index.js.
// A word is whole, or in the plural; a hyphen is part of it and may be left out: allreduce finds all-reduce, and the other way.
function rebuiltSearch({ pages, sections }) {
  const place = document.querySelector("#search-results");
  const asked = new URLSearchParams(location.search).get("q")?.trim() ?? "";
  document.querySelectorAll('input[name="q"]').forEach((field) => { field.value = asked; });
  if (!place || !asked) return;
  const words = asked.toLowerCase().match(/[\p{L}\p{N}_]+(?:[-‐‑–][\p{L}\p{N}_]+)*/gu) ?? [];
  const loose = (word) => word.split(/[-‐‑–]/u).map((part) => [...part].join("[-‐‑]?")).join("[-‐‑–\\s]?");
  const pattern = (several) => new RegExp(
    `(?<![\\p{L}\\p{N}_])${several.map((word) => `${loose(word)}(?:e?s)?`).join("[^\\p{L}\\p{N}_]+")}(?![\\p{L}\\p{N}_])`, "giu");
  const whole = words.map((word) => pattern([word]));
  const phrase = pattern(words);
  const count = (one, text) => [...text.matchAll(one)].length;
  const found = [];
  for (const [page, anchor, heading, text] of sections) {
    const titles = whole.map((one) => count(one, heading));
    const hits = whole.map((one, at) => titles[at] + count(one, text));
    if (words.length && hits.every(Boolean)) {
      const together = words.length > 1 && count(phrase, heading) + count(phrase, text) > 0;
      const score = titles.reduce((a, b) => a + b) * 20 + hits.reduce((sum, many) => sum + Math.log1p(many), 0);
      found.push({ page, anchor, heading, text, together, score: score + together * 1000 });
    }
  }
  found.sort((a, b) => b.score - a.score);
  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const snippet = (text, together) => { // the words around the first hit, the hit marked
    const marks = together && text.search(phrase) >= 0 ? [phrase] : whole;
    const at = Math.max(0, text.search(marks[0]));
    const start = Math.max(0, text.lastIndexOf(" ", Math.max(0, at - 90)));
    const cut = `${start ? "… " : ""}${text.slice(start, at + 160).trim()} …`;
    const parts = [];
    let last = 0;
    for (const hit of [...marks.flatMap((one) => [...cut.matchAll(one)])].sort((a, b) => a.index - b.index)) {
      if (hit.index < last) continue;
      parts.push(cut.slice(last, hit.index), make("mark", { textContent: hit[0] }));
      last = hit.index + hit[0].length;
    }
    return [...parts, cut.slice(last)];
  };
  const items = found.map(({ page, anchor, heading, text, together }) => {
    const [address, title] = pages[page];
    const link = make("a", { href: `${address}#${anchor}`, textContent: heading });
    const where = heading === title ? [] : [make("span", { className: "where", textContent: ` in ${title}` })];
    return make("li", {}, [link, ...where, make("p", {}, snippet(text, together))]);
  });
  const has = (many) => (many === 1 ? "1 section has" : `${many || "No"} sections have`);
  const phrases = found.filter((one) => one.together).length;
  const apart = items.length - phrases;
  const quoted = asked.replace(/^["“”]+|["“”]+$/g, "");
  const said = words.length > 1
    ? `${has(phrases)} the phrase “${quoted}”${apart ? `, ${has(apart)} all of its words apart` : ""}.`
    : `${has(items.length)} the word “${quoted}”.`;
  const told = make("p", { textContent: said });
  told.setAttribute("role", "status");
  place.replaceChildren(told, make("ul", { className: "search" }, items));
}

// The search: sections that hold all the words, as whole words. The index comes by search-index.js.
function rebuiltSearch({ pages, sections }) {
  const place = document.querySelector("#search-results");
  const asked = new URLSearchParams(location.search).get("q")?.trim() ?? "";
  document.querySelectorAll('input[name="q"]').forEach((field) => { field.value = asked; });
  if (!place || !asked) return;
  const words = [...new Set(asked.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [])];
  const whole = words.map((word) => new RegExp(`(?<![\\p{L}\\p{N}_])${word}(?![\\p{L}\\p{N}_])`, "giu"));
  const count = (pattern, text) => [...text.matchAll(pattern)].length;
  const found = [];
  for (const [page, anchor, heading, text] of sections) {
    const titles = whole.map((pattern) => count(pattern, heading));
    const hits = whole.map((pattern, at) => titles[at] + count(pattern, text));
    if (words.length && hits.every(Boolean)) {
      const score = titles.reduce((a, b) => a + b) * 20 + hits.reduce((sum, many) => sum + Math.log1p(many), 0);
      found.push({ page, anchor, heading, text, score });
    }
  }
  found.sort((a, b) => b.score - a.score);
  const make = (name, properties = {}, children = []) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const snippet = (text) => { // the words around the first hit, the hit marked
    const at = Math.max(0, text.search(whole[0]));
    const start = Math.max(0, text.lastIndexOf(" ", Math.max(0, at - 90)));
    const cut = `${start ? "… " : ""}${text.slice(start, at + 160).trim()} …`;
    const parts = [];
    let last = 0;
    for (const hit of [...whole.flatMap((pattern) => [...cut.matchAll(pattern)])].sort((a, b) => a.index - b.index)) {
      if (hit.index < last) continue;
      parts.push(cut.slice(last, hit.index), make("mark", { textContent: hit[0] }));
      last = hit.index + hit[0].length;
    }
    return [...parts, cut.slice(last)];
  };
  const items = found.map(({ page, anchor, heading, text }) => {
    const [address, title] = pages[page];
    const link = make("a", { href: `${address}#${anchor}`, textContent: heading });
    const where = heading === title ? [] : [make("span", { className: "where", textContent: ` in ${title}` })];
    return make("li", {}, [link, ...where, make("p", {}, snippet(text))]);
  });
  const many = items.length === 1 ? "1 section has" : `${items.length || "No"} sections have`;
  const rest = words.length > 1 ? `all of: ${words.join(", ")}` : `the word “${asked}”`;
  const told = make("p", { textContent: `${many} ${rest}.` });
  told.setAttribute("role", "status");
  place.replaceChildren(told, make("ul", { className: "search" }, items));
}

// A phone: write a message, see the answer with its page, or none. Index and retriever run here, in the reader's browser.
// The element's data: `index`, JSON {rows: [[question, [pieces], source, link, date]], k1, b, weights, limit, asked: examples}.
"use strict";
(() => {
  const element = document.querySelector(".city-phone:not([data-state])");
  const make = (tag, more, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  // As bm25.Index and rankers.lexical: Lucene's BM25, as a share of what a document could get.
  function indexed(documents, k1, b) {
    const split = documents.map(words), mean = split.reduce((sum, own) => sum + own.length, 0) / split.length || 1;
    const postings = new Map();
    split.forEach((own, place) => {
      const counts = new Map();
      own.forEach((word) => counts.set(word, (counts.get(word) ?? 0) + 1));
      const floor = k1 * (1 - b + b * own.length / mean);
      counts.forEach((many, word) => {
        if (!postings.has(word)) postings.set(word, []);
        postings.get(word).push([place, many / (many + floor)]);
      });
    });
    const rare = (word) => {
      const held = postings.get(word)?.length ?? 0;
      return Math.log1p((split.length - held + 0.5) / (held + 0.5));
    };
    return (query) => {
      const scores = new Float64Array(split.length), asked = words(query);
      asked.forEach((word) => (postings.get(word) ?? []).forEach(([place, share]) => { scores[place] += rare(word) * share; }));
      const most = asked.reduce((sum, word) => sum + rare(word), 0) || 1;
      return { scores: scores.map((one) => one / most), parts: asked.map((word) => [word, rare(word) / most, postings.has(word)]) };
    };
  }
  function near(one, other) {  // as rankers.near: most of their different words are shared
    const all = new Set([...one, ...other]), both = [...new Set(one)].filter((word) => other.includes(word)).length;
    return both >= 0.7 * all.size;
  }
  function start() {
    const given = JSON.parse(element.dataset.index), rows = given.rows;
    if (!rows?.length) throw new Error("no index came with the page");
    const score = indexed(rows.map((row) => row[0]), given.k1, given.b);
    const within = indexed(rows.flatMap((row) => row[1]), given.k1, given.b), begins = [];
    rows.reduce((sum, row) => { begins.push(sum); return sum + row[1].length; }, 0);
    function piece(text, place) {  // the first of those with most of the question's words
      const own = within(text).scores.subarray(begins[place], begins[place] + rows[place][1].length);
      return own.indexOf(Math.max(...own));
    }
    function ask(text) {
      const { scores, parts } = score(text), best = new Map();
      rows.forEach(([question], place) => {  // pieces under one question are one answer
        const owner = words(question).join(" ");
        if (!best.has(owner) || scores[place] > scores[best.get(owner)]) best.set(owner, place);
      });
      const ranked = [...best.values()].sort((one, other) => scores[other] - scores[one] || one - other);
      const asks = (place) => words(rows[place][0]), own = asks(ranked[0]);
      const rival = ranked.find((place) => !near(asks(place), own)), top = scores[ranked[0]], lead = top - (rival === undefined ? 0 : scores[rival]);
      const [w, l, bias] = given.weights, sure = 1 / (1 + Math.exp(-(w * top + l * lead + bias)));
      return { place: ranked[0], top, lead, sure: top > 0 ? sure : 0, parts };
    }
    const border = "1px solid color-mix(in srgb, currentColor 40%, transparent)", round = "border-radius:.9rem;padding:.5rem .8rem;margin:.3rem 0;overflow-wrap:anywhere;";
    const talk = make("div", { style: "min-height:9rem;max-height:22rem;overflow-y:auto", tabIndex: 0 });
    talk.setAttribute("role", "log");
    talk.setAttribute("aria-label", "The messages");
    const box = make("input", { type: "text", maxLength: 200, value: given.asked[0] ?? "", style: "flex:1 1 9rem;min-width:0;min-height:2.6rem;padding:.3rem .6rem;font:inherit;color:inherit;background:transparent;border:" + border });
    box.setAttribute("aria-label", "Your message");
    const button = (label, act, type = "button") => {
      const made = make("button", { type, textContent: label, style: "min-height:2.6rem;padding:.3rem .8rem;font:inherit;color:inherit;background:transparent;text-align:left;border-radius:.5rem;border:" + border });
      if (act) made.addEventListener("click", act);
      return made;
    };
    const percent = (n) => `${(100 * n).toFixed(0)} %`;
    const page = make("section", { hidden: true, tabIndex: -1, style: "border:" + border + ";" + round });
    page.setAttribute("aria-label", "The page");
    function open(row, parts, chosen) {
      const credit = given.credit[row[2]] ? ` ${given.credit[row[2]]}.` : "";
      page.replaceChildren(
        make("p", { style: "font-size:.85em;margin:0", textContent: `${row[2]}, as of ${row[4]}; not advice of today.${credit}` }),
        make("p", { style: "font-weight:600;margin:.3rem 0", textContent: row[0] }),
        make("p", { style: "white-space:pre-line;margin:.3rem 0" }, row[1].flatMap((one, at) => [at === chosen
          ? make("mark", { style: "background:color-mix(in srgb, #e8a13a 35%, transparent);color:inherit", textContent: one }) : one, "\n"])),
        make("p", { style: "font-size:.85em;margin:0;overflow-wrap:anywhere" }, ["From ", make("a", { href: row[3], rel: "noopener", textContent: row[3] })]),
        make("p", { style: "font-size:.85em;margin:.3rem 0 0", textContent: "Your words by weight: " + parts.map(([word, weight, held]) => `${word} ${percent(weight)}${held ? "" : " (in no question)"}`).join(", ") + "." }),
      );
      page.hidden = false;
      page.focus({ preventScroll: true });
    }
    function send(text) {
      if (!text.trim()) return;
      const found = ask(text), row = rows[found.place], told = found.sure >= given.limit, chosen = piece(text, found.place);
      page.hidden = true;
      const reply = make("div", { style: round + "margin-right:12%;border:" + border });
      const nearest = found.top > 0 ? ` The nearest question: “${row[0]}”.` : "";
      reply.append(told ? row[1][chosen] : `I do not know that.${nearest}`);
      reply.append(make("div", { style: "font-size:.85em;margin-top:.3rem", textContent: `confidence ${percent(found.sure)}; below ${percent(given.limit)} nothing is claimed` }));
      if (found.top > 0) reply.append(button(told ? `See the page of ${row[2]}` : "See it all the same", () => open(row, found.parts, chosen)));
      talk.append(make("div", { style: round + "margin-left:12%;background:color-mix(in srgb, #2f7fd6 22%, transparent)", textContent: text }), reply);
      talk.scrollTop = talk.scrollHeight;
      element.dataset.shown = JSON.stringify([found.place, found.top, found.lead, found.sure, chosen]);
    }
    const form = make("form", { style: "display:flex;flex-wrap:wrap;gap:.4rem;margin:.5rem 0" }, [box, button("Send", null, "submit")]);
    form.addEventListener("submit", (event) => { event.preventDefault(); send(box.value); box.value = ""; box.focus(); });
    const examples = make("div", { style: "display:flex;flex-wrap:wrap;gap:.4rem" }, given.asked.map((text) => button(text, () => send(text))));
    element.replaceChildren(make("div", { style: "max-width:34rem;border:" + border + ";" + round }, [talk, form, make("p", { style: "font-size:.85em;margin:.3rem 0", textContent: "Or send one of these:" }), examples, page]));
    if (given.asked.length) send(given.asked[0]);
    box.value = "";
    element.dataset.state = "running";
  }
  try { start(); } catch (error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The phone cannot be shown here: ${error.message}.` }));
  }
})();

// Acts: a question in a box gets its controls here, a reply to each answer, and guesses stand beside what was measured.
// Without scripts, and in print, the question stands with its answer in a fold.
(() => {
  const RIGHT = "✓ Right.";
  const WRONG = "✗ Not yet.";
  const LETTERS = "abcdefgh";
  const kept = { // a browser may refuse to keep anything; then it is kept until the page goes
    now: {},
    key: (id) => `act:${location.pathname}#${id}`,
    get(id) { try { return localStorage.getItem(this.key(id)) ?? this.now[id]; } catch { return this.now[id]; } },
    set(id, text) { this.now[id] = text; try { localStorage.setItem(this.key(id), text); } catch { /* not kept */ } },
  };

  const made = (name, properties, ...inside) => {
    const { role, label, ...own } = properties;
    const element = Object.assign(document.createElement(name), own);
    if (role) element.setAttribute("role", role);
    if (label) element.setAttribute("aria-label", label);
    element.append(...inside);
    return element;
  };
  const amount = (number, unit) => `${number}${/^[×%]$/.test(unit) ? "" : " "}${unit}`;
  const copies = (nodes) => [...nodes].map((one) => one.cloneNode(true));

  // What stands in a list item, without its paragraph.
  const words = (item) => made("span", {}, ...[...item.childNodes].flatMap((one) => (
    one.nodeName === "P" ? [...one.childNodes] : [one])));

  // Each kind: controls into the box; gives a function that says whether an answer is right, and the reply.
  const KINDS = {
    choose(box, { id, right }, replies) {
      const options = box.querySelector(".rebuilt-act-options");
      options.setAttribute("role", "radiogroup");
      options.setAttribute("aria-labelledby", `act-${id}-question`);
      const radios = [...options.querySelectorAll("li")].map((item, at) => {
        const radio = made("input", { type: "radio", name: `act-${id}`, value: LETTERS[at] });
        item.replaceChildren(made("label", {}, radio, words(item)));
        return radio;
      });
      return () => {
        const at = radios.findIndex((one) => one.checked);
        if (at < 0) return [null, "Choose one first."];
        return [LETTERS[at] === right, ...copies(replies.querySelectorAll("li")[at].childNodes)];
      };
    },

    order(box, { right }, replies, say) {
      const list = box.querySelector(".rebuilt-act-options ol");
      const rows = [...list.children];
      const move = (row, up) => {
        const other = up ? row.previousElementSibling : row.nextElementSibling;
        other?.[up ? "before" : "after"](row);
        const place = `${[...list.children].indexOf(row) + 1} of ${rows.length}`;
        say("", other ? `Now in place ${place}.` : `It is in place ${place} already.`);
      };
      for (const row of rows) {
        const text = words(row);
        const buttons = [["↑", "up"], ["↓", "down"]].map(([textContent, way]) => {
          const button = made("button", { type: "button", textContent, label: `Move ${way}: ${text.textContent.trim()}` });
          button.addEventListener("click", () => { move(row, way === "up"); button.focus(); });
          return button;
        });
        row.replaceChildren(text, made("span", { className: "rebuilt-act-move" }, ...buttons));
      }
      return () => {
        const there = [...list.children].filter((row, at) => LETTERS[rows.indexOf(row)] === right[at]).length;
        if (there < rows.length) return [false, `${WRONG} ${there} of ${rows.length} stand where they belong.`];
        return [true, made("p", {}, RIGHT), ...copies(replies.querySelectorAll(":scope > p"))];
      };
    },

    predict(box, { id, unit }) {
      const input = made("input", { type: "number", step: "any", inputMode: "decimal", value: kept.get(id) ?? "" });
      input.setAttribute("aria-describedby", `act-${id}-question`);
      box.append(made("label", { className: "rebuilt-act-guess" }, "Your guess", input, unit));
      input.addEventListener("keydown", (event) => event.key === "Enter" && box.querySelector("button").click());
      return () => {
        if (input.value === "") return [null, "Type a number first."];
        kept.set(id, input.value);
        beside();
        const there = made("a", { href: `#act-${id}-measured` }, "at the end of this section");
        return [null, made("p", {}, `Kept: ${amount(input.value, unit)}. The measurement stands beside it `, there, ".")];
      };
    },
  };

  const told = (box) => JSON.parse(box.dataset.act);
  const guessed = ({ id, unit }) => (kept.get(id) === undefined ? "none yet" : amount(kept.get(id), unit));

  // How near a guess is, in words; "" without one.
  function near({ id, value, within }) {
    if (kept.get(id) === undefined) return "";
    const guess = Number(kept.get(id));
    if (!(guess * value > 0)) return guess === value ? "exact" : "not close";
    const off = Math.max(guess / value, value / guess);
    return off <= within ? `close, within a factor of ${within}` : `off by a factor of ${Number(off.toPrecision(3))}`;
  }

  // The guesses beside what was measured: at the ends of sections, and in the recap.
  function beside() {
    const acts = [...document.querySelectorAll(".rebuilt-act")].filter((box) => told(box).kind === "predict");
    for (const box of acts) {
      const act = told(box);
      const place = document.querySelector(`.rebuilt-act-measured[data-of="${act.id}"]`);
      if (!place) continue;
      place.id = `act-${act.id}-measured`;
      const link = made("a", { href: `#${box.id}` }, act.id.replaceAll("_", " "));
      const said = made("p", {}, made("strong", {}, `Your guess: ${guessed(act)}. Measured: ${act.text}.`));
      if (near(act)) said.append(` That is ${near(act)}.`);
      const reply = box.querySelectorAll(".rebuilt-act-answer > p");
      place.replaceChildren(made("p", { className: "rebuilt-act-kind" }, "Predicted: ", link), said, ...copies([...reply].slice(1)));
    }
    for (const place of document.querySelectorAll(".rebuilt-act-recap")) {
      const head = ["predicted", "your guess", "measured", "how near"].map((one) => made("th", { scope: "col" }, one));
      const rows = acts.map((box) => {
        const act = told(box);
        const name = made("a", { href: `#${box.id}` }, act.id.replaceAll("_", " "));
        const cells = [guessed(act), act.text, near(act)].map((one) => made("td", {}, one));
        return made("tr", {}, made("th", { scope: "row" }, name), ...cells);
      });
      const caption = made("caption", {}, "Your guesses beside what was measured");
      const table = made("table", {}, caption, made("thead", {}, made("tr", {}, ...head)), made("tbody", {}, ...rows));
      Object.assign(place, { tabIndex: 0 }).replaceChildren(table);
    }
  }

  function offer(box) {
    const act = told(box);
    const replies = box.querySelector(".rebuilt-act-answer");
    const said = made("div", { className: "rebuilt-act-said", role: "status" });
    const say = (right, ...nodes) => {
      said.dataset.state = right === true ? "right" : right === false ? "wrong" : "";
      said.replaceChildren(...nodes);
    };
    const answer = KINDS[act.kind](box, act, replies, say);
    const button = made("button", { type: "button", textContent: act.kind === "predict" ? "Keep" : "Answer" });
    button.addEventListener("click", () => {
      const [right, ...nodes] = answer();
      say(right, ...nodes);
      replies.hidden = right === null || act.kind === "predict";
    });
    replies.hidden = true;
    box.append(made("div", { className: "rebuilt-act-do" }, button), said, replies);
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".rebuilt-act").forEach(offer);
    beside();
  });
})();

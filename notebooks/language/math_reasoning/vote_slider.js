// The first k sampled answers of a problem vote: move k, and open the samples beneath.
// The element holds JSON {problems: [{number, question, reference, answers, right, solutions}], curves: {name: [percent]}}.
"use strict";
(() => {
  const element = document.querySelector(".vote-slider:not([data-state])");
  const make = (tag, more = {}, inside = []) => {
    const made = Object.assign(document.createElement(tag), more);
    made.append(...inside);
    return made;
  };
  const long = "overflow-wrap:anywhere;white-space:pre-wrap;margin:.3rem 0";
  // As voting.leaders: the most common answers, in the order in which they came; null never votes.
  function count(answers) {
    const votes = new Map();
    for (const one of answers) if (one !== null) votes.set(one, (votes.get(one) || 0) + 1);
    const most = Math.max(0, ...votes.values());
    return { votes, leaders: [...votes.keys()].filter((one) => votes.get(one) === most) };
  }
  function start() {
    const { problems, curves } = JSON.parse(element.querySelector("script").textContent);
    if (!problems.length) throw new Error("no problem came with the page");
    const choice = make("select", { style: "max-width:100%;min-height:2rem" });
    choice.setAttribute("aria-label", "Problem");
    problems.forEach((one, at) => choice.append(make("option", { value: at, textContent: `Problem ${one.number}` })));
    const range = make("input", { type: "range", min: 1, step: 1, value: 1, style: "width:100%;min-height:2rem" });
    range.setAttribute("aria-label", "Votes");
    const told = make("span", { style: "font-weight:600" });
    const question = make("p", { style: long }), words = make("p", { role: "status", style: "min-height:4.6em;margin:.4rem 0" });
    const bars = make("div"), samples = make("div"), all = make("p");
    function open() {
      const one = problems[choice.value];
      range.max = one.answers.length;
      question.textContent = one.question;
      samples.replaceChildren(...one.answers.map((answer, at) => make("details", { style: "margin:.2rem 0" }, [
        make("summary", { textContent: `Sample ${at + 1}: ${answer === null ? "no answer" : answer}`, style: "overflow-wrap:anywhere;min-height:1.6rem" }),
        make("p", { textContent: one.solutions[at], style: long }),
      ])));
      draw();
    }
    function draw() {
      try {
        const one = problems[choice.value], k = Number(range.value), mine = one.answers.slice(0, k);
        const { votes, leaders } = count(mine), right = new Set(one.answers.filter((_, at) => one.right[at]));
        const good = leaders.filter((answer) => right.has(answer)).length, found = mine.some((answer) => right.has(answer));
        told.textContent = `${k}`;
        range.setAttribute("aria-valuetext", `${k} of ${one.answers.length} samples`);
        const rows = [...votes].sort((a, b) => b[1] - a[1]);
        bars.replaceChildren(...rows.map(([answer, many]) => make("div", { style: "display:flex;gap:.5rem;align-items:center;margin:.15rem 0" }, [
          make("span", { textContent: `${answer}${right.has(answer) ? " ✓" : ""}`, style: "flex:0 0 40%;text-align:right;overflow-wrap:anywhere" }),
          make("span", { style: `height:.9rem;width:${(45 * many / k).toFixed(1)}%;border:1px solid currentColor;background:${right.has(answer) ? "#2f7fd6" : "#e8871e"}` }),
          make("span", { textContent: `${many}` }),
        ])));
        const verdict = !leaders.length ? "Nobody votes." : leaders.length > 1 ? `A tie of ${leaders.length}: the first to come, ${leaders[0]}, is taken, and is ${right.has(leaders[0]) ? "right" : "wrong"}.`
          : `The majority says ${leaders[0]}, which is ${good ? "right" : "wrong"}.`;
        words.textContent = `${k} ${k === 1 ? "sample votes" : "samples vote"}. ${verdict} ${found ? "A right answer is among them." : "No right answer is among them."} The reference is ${one.reference}.`;
        all.textContent = `All problems, any ${k} of their samples: ${Object.entries(curves).map(([name, row]) => `${name} ${row[k - 1].toFixed(1)} %`).join(", ")}.`;
        [...samples.children].forEach((box, at) => { box.style.paddingLeft = ".5rem"; box.style.borderLeft = at < k ? "4px solid currentColor" : "4px dotted transparent";  /* votes: a bar beside it */ });
        element.dataset.state = "running";
        element.dataset.shown = JSON.stringify([k, leaders, good > 0 && right.has(leaders[0])]);
      } catch (error) { failed(error); }
    }
    choice.addEventListener("change", open);
    range.addEventListener("input", draw);
    element.replaceChildren(make("section", {}, [choice, question, make("div", {}, ["Votes: ", told, range]), words, bars, all, samples]));
    open();
  }
  function failed(error) {
    element.dataset.state = "failed";
    element.replaceChildren(make("p", { textContent: `The votes cannot be shown here: ${error.message}.` }));
  }
  try { start(); } catch (error) { failed(error); }
})();

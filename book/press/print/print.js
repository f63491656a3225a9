// One document of some pages of the book, in a browser that shows one of its pages: a title, the contents, and the article of
// each page with its ids made unique, its folds open, its links inside or to the published book; hints, answers and solutions stand at the end, so that
// nobody reads one above the own attempt. Gives the words of all headings.
async ({ title, author, release, pages, parts, answers, site }) => {
  const NOT_PRINTED = ".headerlink, .rebuilt-launch, .rebuilt-figure-data, script, button, form, .toc-item, .noprint, "
    + ".rebuilt-switch, .touch, .tag_plumbing > .above-input";
  const id = (name, anchor = "") => name.replace(/[^\w-]/g, "-") + (anchor && `--${anchor}`);
  const element = (tag, about = {}, ...inside) => {
    const made = Object.assign(document.createElement(tag), about);
    made.append(...inside);
    return made;
  };

  // The article of a page; what it links to is in this document, or where the book is published.
  async function article(name) {
    const address = new URL(`/${name}.html`, location.href);
    const page = new DOMParser().parseFromString(await (await fetch(address)).text(), "text/html");
    const found = page.querySelector("article.bd-article");
    found.querySelectorAll(NOT_PRINTED).forEach((one) => one.remove());
    for (const fold of found.querySelectorAll("details")) {
      fold.open = true;
      if (!fold.matches(".above-input, .above-output")) continue;
      fold.querySelector("summary").remove(); // it only says how to unfold the cell
      fold.replaceWith(element("div", { className: fold.className }, ...fold.childNodes));
    }
    for (const one of found.querySelectorAll("[id]")) one.id = id(name, one.id);
    for (const key of ["data-rebuilt-filter", "tabindex", "loading"])
      for (const one of found.querySelectorAll(`[${key}]`)) one.removeAttribute(key);
    for (const key of ["href", "src"])
      for (const one of found.querySelectorAll(`[${key}]`)) {
        const to = new URL(one.getAttribute(key), address);
        if (to.origin !== location.origin) continue;
        const other = decodeURIComponent(to.pathname.slice(1)).replace(/\.html$/, "");
        const inside = key === "href" && pages.includes(other);
        const outside = key === "href" ? new URL(to.pathname.slice(1) + to.hash, site).href : to.pathname;
        one.setAttribute(key, inside ? `#${id(other, decodeURIComponent(to.hash.slice(1)))}` : outside);
      }
    found.id = id(name);
    return found;
  }

  // A section of the hints and solutions of an article, which leave it; a link to them stands in their places.
  function taken(from) {
    const section = element("section", {}, element("h2", {}, words(from.querySelector("h1"))));
    for (const exercise of from.querySelectorAll("section")) {
      const own = [...exercise.children].filter((one) => one.matches("div.tag_solution")
        || one.matches("details") && one.querySelector("summary")?.textContent.trim().startsWith("Hint"));
      const answers = [...exercise.querySelectorAll(":scope > .rebuilt-act > .rebuilt-act-answer")];
      if (!own.length && !answers.length) continue;
      const anchor = `${from.id}--answers-${section.querySelectorAll("h3").length + 1}`;
      const link = (said) => element("p", {}, `${said} `, element("a", { href: `#${anchor}` }, "at the end of the book"), ".");
      own[0]?.before(link("Two hints and a solution stand"));
      section.append(element("h3", { id: anchor }, words(exercise.querySelector("h2, h3, h4"))));
      for (const answer of answers) {
        const question = answer.parentElement.querySelector(".rebuilt-act-question").cloneNode(true);
        question.removeAttribute("id");
        answer.before(link("The answer stands"));
        section.append(question, answer);
      }
      section.append(...own);
    }
    return section.children.length > 1 ? section : "";
  }

  // A heading's words, without the mark of what lies beyond the core path.
  function words(heading) {
    const plain = heading?.cloneNode(true);
    plain?.querySelector(".rebuilt-further")?.remove();
    return plain?.textContent.trim() ?? "";
  }
  const articles = [];
  for (const name of pages) articles.push(await article(name));
  const end = element("article", { className: "bd-article", id: answers.anchor }, element("h1", {}, answers.title));
  end.append(...articles.map(taken));
  if (end.children.length > 1) articles.push(end);
  const titles = new Map(articles.map((one) => [one.id, words(one.querySelector("h1"))]));
  const contents = parts.flatMap(([caption, names]) => {
    const entries = names.filter((name) => titles.has(id(name)));
    const link = (name) => element("a", { href: `#${id(name)}` }, titles.get(id(name)));
    const rows = entries.map((name) => element("li", {}, link(name)));
    const head = caption ? [element("p", { className: "part" }, caption)] : [];
    return rows.length ? [...head, element("ol", {}, ...rows)] : [];
  });
  const nav = element("nav", { ariaLabel: "Contents" }, element("h2", {}, "Contents"), ...contents);
  const cover = element("header", { className: "cover" }, element("p", { className: "title" }, title));
  cover.append(element("p", {}, author), element("p", {}, release));

  Object.assign(document.documentElement.dataset, { theme: "light", mode: "light" });
  document.title = title;
  const loaded = (one) => new Promise((done) => Object.assign(one, { onload: done, onerror: done }));
  const letters = element("link", { rel: "stylesheet", href: "/_static/maths.css" });
  document.head.append(letters);
  await loaded(letters);
  const main = element("main", { className: "bd-content" }, cover, nav, ...articles);
  document.body = element("body", { className: "rebuilt-print" }, main);
  main.getBoundingClientRect(); // asks for the letters
  await Promise.all([...document.images].filter((one) => !one.complete).map(loaded));
  await document.fonts.ready;
  return [...main.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((one) => one.textContent);
}

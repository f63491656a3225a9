// Touch the hash: a text's bucket, and who shares it, as the number of buckets moves.
// The function fills an element; facts: texts, counts (how often each occurs), sizes (numbers of buckets), and
// the constants of click_features/spec.py, whose hash this is. It is called by the cell's output, in a page or notebook.
(root, facts) => {
  "use strict";
  const { texts, counts, sizes, constants: c } = facts;
  // Horner's rule over code points; all products stay below 2^53, so doubles are exact.
  const textKey = (text) => {
    const points = [...text].slice(0, c.characters).map((one) => one.codePointAt(0));
    let key = 0;
    for (let at = 0; at < c.characters; at += 1) key = (key * c.base + (points[at] ?? 0)) % c.modulus;
    return key;
  };
  // Keys of texts are below 2^31, so the fold of the upper half adds nothing; imul gives a product's lower 32 bits.
  const hash32 = (key) => {
    let mixed = Math.imul(key ^ (key >>> 16), c.first);
    mixed = Math.imul(mixed ^ (mixed >>> 15), c.second);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  root.bucketOf = (text, buckets) => hash32(textKey(text)) % buckets;

  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const [text, size, many, told, shared, grid] = ["text", "size", "many", "told", "shared", "grid"].map(part);
  const hashes = texts.map((one) => hash32(textKey(one)));
  const number = (value) => value.toLocaleString("en-US");

  function draw(filled, own) {
    const context = grid.getContext("2d");
    const columns = Math.ceil(Math.sqrt(filled.length * (grid.width / grid.height)));
    const side = Math.min(grid.width / columns, grid.height / Math.ceil(filled.length / columns));
    const gap = side > 6 ? 2 : 0.5;
    context.clearRect(0, 0, grid.width, grid.height);
    filled.forEach((held, bucket) => {
      const [x, y] = [(bucket % columns) * side, Math.floor(bucket / columns) * side];
      context.fillStyle = held > 1 ? "#cc5a4a" : held ? "#4a7fb5" : "rgba(128, 128, 128, 0.25)";
      context.fillRect(x, y, side - gap, side - gap);
      if (bucket !== own) return;
      context.strokeStyle = getComputedStyle(root).color;
      context.lineWidth = 4;
      context.strokeRect(x - 1, y - 1, Math.max(side, 8), Math.max(side, 8));
    });
  }

  function show() {
    const buckets = sizes[Number(size.value)];
    const wanted = text.value;
    const own = root.bucketOf(wanted, buckets);
    const filled = new Uint32Array(buckets);
    hashes.forEach((one) => { filled[one % buckets] += 1; });
    const used = filled.reduce((sum, held) => sum + (held > 0), 0);
    const others = texts.map((one, at) => [one, counts[at]])
      .filter(([one], at) => hashes[at] % buckets === own && one !== wanted)
      .sort((a, b) => b[1] - a[1]);
    many.textContent = number(buckets);
    size.setAttribute("aria-valuetext", `${buckets} buckets`);
    const hash = hash32(textKey(wanted));
    const known = texts.includes(wanted) ? "" : " (not in the log: it has a bucket all the same)";
    told.textContent = `“${wanted}”${known} has the hash ${number(hash)}: bucket ${number(own)} of ${number(buckets)}.`;
    const listed = others.slice(0, 5).map(([one, count]) => `${one} (${number(count)})`).join(", ");
    const rest = others.length > 5 ? ` and ${number(others.length - 5)} more` : "";
    const alone = "No other place of the log is in it.";
    const lost = (100 * (1 - used / texts.length)).toFixed(0);
    shared.textContent = `${others.length ? `In the same bucket, with displays: ${listed}${rest}.` : alone} `
      + `All ${number(texts.length)} places fill ${number(used)} buckets: ${lost} % find theirs taken.`;
    grid.setAttribute("aria-label", `${number(buckets)} buckets, ${number(used)} of them in use`);
    draw(filled, own);
    root.dataset.bucket = String(own);
    root.dataset.shared = String(others.length);
  }

  text.addEventListener("input", show);
  size.addEventListener("input", show);
  part("controls").hidden = false;
  show();
}

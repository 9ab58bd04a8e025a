// Zoom, search and keys of differential flame graphs; without this they are still pictures.
"use strict";
(() => {
  const LETTER = 6.7; // pixels of a letter of a label
  const FEWEST = 3; // letters, below which a label says nothing

  function us(value) {
    const size = Math.abs(value);
    return size >= 999.5 ? Math.round(size).toLocaleString("en-US") : String(Number(size.toPrecision(3)));
  }

  function signed(value) {
    return us(value) === "0" ? "±0" : (value < 0 ? "−" : "+") + us(value);
  }

  function percent(value, total) {
    return (total > 0 ? (100 * value) / total : 0).toFixed(1) + " %";
  }

  // A graph's frames by the number of their call path, as they were drawn.
  function readGraph(svg) {
    const frames = new Map();
    for (const element of svg.querySelectorAll(".frame")) {
      const text = element.querySelector("text");
      frames.set(Number(element.dataset.n), {
        element,
        text,
        label: text.textContent,
        lines: element.querySelector("title").textContent.split("\n"),
        number: Number(element.dataset.n),
        last: Number(element.dataset.l),
        a: Number(element.dataset.a),
        b: Number(element.dataset.b),
        row: parseFloat(element.getAttribute("y")),
        at: parseFloat(element.getAttribute("x")),
        width: parseFloat(element.getAttribute("width")),
        shown: true,
      });
    }
    return { svg, frames, ground: svg.querySelector(".ground"), absent: svg.querySelector(".absent") };
  }

  function start(place) {
    const graphs = [...place.querySelectorAll(".graph")].map(readGraph);
    const paths = new Map();
    for (const graph of graphs) for (const [number, frame] of graph.frames) paths.set(number, frame);
    const ordered = [...paths.values()].sort((one, other) => one.number - other.number);
    if (!ordered.length) return;
    const top = ordered[0];
    const controls = place.querySelector(".flame-controls");
    const input = controls.querySelector("input");
    const reset = controls.querySelector("button");
    const found = controls.querySelector(".flame-found");
    const detail = controls.querySelector(".flame-detail");
    const hint = detail.querySelector(".figures").textContent;
    let zoomed = top.number;

    function tell(number) {
      const frame = paths.get(number);
      const [what, where, ...figures] = frame === undefined ? ["", "", hint] : frame.lines;
      detail.querySelector(".what").textContent = what;
      detail.querySelector(".where").textContent = where && " " + where;
      detail.querySelector(".figures").textContent = figures.join(" · ");
      for (const graph of graphs) {
        for (const old of graph.svg.querySelectorAll(".twin")) old.classList.remove("twin");
        graph.frames.get(number)?.element.classList.add("twin");
      }
    }

    // As much of each name as there is room for.
    function label() {
      for (const graph of graphs) {
        const pixels = graph.ground.getBoundingClientRect().width / 100;
        for (const frame of graph.frames.values()) {
          if (!frame.shown) continue;
          const width = Math.min(100, parseFloat(frame.element.getAttribute("width")));
          const room = Math.floor((width * pixels - 6) / LETTER);
          frame.text.classList.toggle("narrow", room < FEWEST);
          frame.text.textContent = frame.label.length <= room ? frame.label : frame.label.slice(0, Math.max(0, room - 1)) + "…";
        }
      }
    }

    function zoom(number) {
      zoomed = number;
      const { last } = paths.get(number);
      const widest = Math.max(...graphs.map((graph) => graph.frames.get(number)?.width ?? 0));
      const factor = number === top.number ? 1 : 100 / widest;
      for (const graph of graphs) {
        const focus = graph.frames.get(number);
        for (const frame of graph.frames.values()) {
          const above = frame.number < number && frame.last >= number;
          frame.shown = focus !== undefined && (above || (frame.number >= number && frame.number <= last));
          frame.element.style.display = frame.shown ? "" : "none";
          frame.element.classList.toggle("above", above);
          if (!frame.shown) continue;
          frame.element.setAttribute("x", (above ? 0 : (frame.at - focus.at) * factor) + "%");
          frame.element.setAttribute("width", (above ? focus : frame).width * factor + "%");
        }
        graph.absent.style.display = focus === undefined ? "inline" : "none";
      }
      reset.disabled = number === top.number;
      label();
    }

    function search() {
      let pattern = null;
      input.removeAttribute("aria-invalid");
      found.textContent = "";
      try {
        pattern = input.value && new RegExp(input.value, "im");
      } catch (error) {
        input.setAttribute("aria-invalid", "true");
        found.textContent = "not a regular expression (yet)";
      }
      // A call path within one that matches is counted with it.
      let [a, b, count, covered] = [0, 0, 0, -1];
      for (const path of ordered) {
        path.matches = Boolean(pattern) && pattern.test(path.lines[0] + "\n" + path.lines[1]);
        count += path.matches;
        if (!path.matches || path.number <= covered) continue;
        [a, b, covered] = [a + path.a, b + path.b, path.last];
      }
      for (const graph of graphs) {
        graph.svg.classList.toggle("searched", Boolean(pattern));
        for (const [number, frame] of graph.frames) {
          frame.element.classList.toggle("match", paths.get(number).matches);
        }
      }
      if (pattern) {
        found.textContent =
          `A ${us(a)} µs, ${percent(a, top.a)} · B ${us(b)} µs, ${percent(b, top.b)} · ` +
          `difference ${signed(b - a)} µs (${count} ${count === 1 ? "call path" : "call paths"})`;
      }
    }

    function focusOn(graph, frame) {
      for (const other of graph.frames.values()) other.element.setAttribute("tabindex", "-1");
      frame.element.setAttribute("tabindex", "0");
      frame.element.focus({ preventScroll: false });
    }

    // Where an arrow leads: to a caller, the widest callee, or a neighbour of the same row.
    function neighbour(graph, frame, key) {
      const shown = [...graph.frames.values()].filter((other) => other.shown);
      if (key === "Home") return shown[0];
      if (key === "ArrowDown") return shown.find((other) => other.number > frame.number && other.number <= frame.last);
      if (key === "ArrowUp") return shown.findLast((other) => other.number < frame.number && other.last >= frame.number);
      const row = shown.filter((other) => other.row === frame.row);
      return row[row.indexOf(frame) + (key === "ArrowRight" ? 1 : -1)];
    }

    function press(graph, event) {
      const frame = graph.frames.get(Number(event.target.closest(".frame")?.dataset.n));
      if (!frame || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Enter" || event.key === " ") {
        zoom(frame.number);
      } else if (/^(Arrow(Up|Down|Left|Right)|Home)$/.test(event.key)) {
        const next = neighbour(graph, frame, event.key);
        if (next) focusOn(graph, next);
      } else {
        return;
      }
      event.preventDefault();
    }

    for (const graph of graphs) {
      graph.svg.setAttribute("role", "tree");
      for (const frame of graph.frames.values()) {
        frame.element.setAttribute("role", "treeitem");
        frame.element.setAttribute("aria-label", frame.lines.filter(Boolean).join(", "));
        frame.element.setAttribute("tabindex", frame.number === top.number ? "0" : "-1");
      }
      const numberAt = (event) => Number(event.target.closest(".frame")?.dataset.n ?? NaN);
      graph.svg.addEventListener("mouseover", (event) => tell(numberAt(event)));
      graph.svg.addEventListener("mouseleave", () => tell(zoomed === top.number ? NaN : zoomed));
      graph.svg.addEventListener("click", (event) => paths.has(numberAt(event)) && zoom(numberAt(event)));
      graph.svg.addEventListener("keydown", (event) => press(graph, event));
    }
    // Of the document: an SVG element that listens to it could be focused itself.
    document.addEventListener("focusin", (event) => {
      const frame = place.contains(event.target) && event.target.closest(".frame");
      if (frame) tell(Number(frame.dataset.n));
    });
    place.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || (event.target === input && input.value)) return;
      zoom(top.number);
    });
    reset.addEventListener("click", () => zoom(top.number));
    input.addEventListener("input", search);
    addEventListener("resize", label);
    place.addEventListener("toggle", label, true);
    controls.hidden = false;
    controls.removeAttribute("hidden");
    place.classList.add("ready");
    zoom(top.number);
    if (input.value) search();
  }

  for (const place of document.querySelectorAll(".flame-graph")) start(place);
})();

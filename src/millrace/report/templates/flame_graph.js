// Zoom, search and keys of differential flame graphs; without this they are still pictures.
"use strict";
(() => {
  const LETTER = 6.7; // pixels of a letter of a label
  const FEWEST = 3; // letters, below which a label says nothing
  const OUTLINED = 0.8; // percent of the width that has room for an outline

  // Three digits, as the figures of the page.
  function figure(value) {
    const size = Math.abs(value);
    if (size < 0.0005) return size > 0 ? "≈0" : "0";
    return (value < 0 ? "−" : "") + (size >= 999.5 ? Math.round(size).toLocaleString("en-US") : String(Number(size.toPrecision(3))));
  }

  function signed(value) {
    return (value >= 0.0005 ? "+" : value === 0 ? "±" : "") + figure(value);
  }

  function percent(value, total) {
    return (total > 0 ? (100 * value) / total : 0).toFixed(1) + " %";
  }

  // A graph's frames, callers before callees, as they were drawn.
  function readGraph(svg) {
    const frames = [...svg.querySelectorAll(".frame")].map((element) => {
      const text = element.querySelector("text");
      return {
        element,
        text,
        label: text.textContent,
        lines: element.querySelector("title").textContent.split("\n"),
        number: Number(element.dataset.n),
        last: Number(element.dataset.l),
        counterpart: element.dataset.c, // none where it is not compared
        us: Number(element.dataset.us),
        row: parseFloat(element.getAttribute("y")),
        at: parseFloat(element.getAttribute("x")),
        width: parseFloat(element.getAttribute("width")),
        shown: true,
      };
    });
    return { svg, frames, ground: svg.querySelector(".ground"), absent: svg.querySelector(".absent") };
  }

  function start(place) {
    const graphs = [...place.querySelectorAll(".graph")].map(readGraph);
    const unit = place.dataset.unit;
    const controls = place.querySelector(".flame-controls");
    const input = controls.querySelector("input");
    const reset = controls.querySelector("button");
    const found = controls.querySelector(".flame-found");
    const detail = controls.querySelector(".flame-detail");
    const hint = detail.querySelector(".figures").textContent;
    let zoomed = null;

    const frameAt = (graph, event) => {
      const element = event.target.closest(".frame");
      return element ? graph.frames[Number(element.dataset.n)] : null;
    };

    // The same function in a graph: the widest, where other functions are between.
    function counterpart(graph, frame) {
      if (frame.counterpart === undefined) return null;
      const same = graph.frames.filter((other) => other.counterpart === frame.counterpart);
      return same.reduce((widest, other) => (other.width > (widest?.width ?? 0) ? other : widest), null);
    }

    function tell(frame) {
      const [what, where, ...figures] = frame === null ? ["", "", hint] : frame.lines;
      detail.querySelector(".what").textContent = what;
      detail.querySelector(".where").textContent = where && " " + where;
      detail.querySelector(".figures").textContent = figures.join(" · ");
      for (const graph of graphs) {
        for (const other of graph.frames) {
          const same = frame?.counterpart !== undefined && other.counterpart === frame.counterpart;
          other.element.classList.toggle("twin", same || other === frame);
        }
      }
    }

    // As much of each name as there is room for.
    function label() {
      for (const graph of graphs) {
        const pixels = graph.ground.getBoundingClientRect().width / 100;
        for (const frame of graph.frames) {
          if (!frame.shown) continue;
          const width = Math.min(100, parseFloat(frame.element.getAttribute("width")));
          const room = Math.floor((width * pixels - 6) / LETTER);
          frame.text.classList.toggle("narrow", room < FEWEST);
          frame.text.textContent = frame.label.length <= room ? frame.label : frame.label.slice(0, Math.max(0, room - 1)) + "…";
        }
      }
    }

    // The frame, and its counterpart in the other graph, as wide as there is room on one scale.
    function zoom(frame) {
      zoomed = frame;
      const focuses = graphs.map((graph) => (frame === null || graph.frames.includes(frame) ? frame : counterpart(graph, frame)));
      const factor = frame === null ? 1 : 100 / Math.max(...focuses.map((focus) => focus?.width ?? 0));
      graphs.forEach((graph, index) => {
        const focus = frame === null ? graph.frames[0] : focuses[index];
        for (const other of graph.frames) {
          const above = Boolean(focus) && other.number < focus.number && other.last >= focus.number;
          const inside = Boolean(focus) && other.number >= focus.number && other.number <= focus.last;
          other.shown = above || inside;
          other.element.style.display = other.shown ? "" : "none";
          other.element.classList.toggle("above", above);
          if (!other.shown) continue;
          other.element.setAttribute("x", (above ? 0 : (other.at - focus.at) * factor) + "%");
          other.element.setAttribute("width", (above ? focus : other).width * factor + "%");
          other.element.classList.toggle("slim", other.width * factor < OUTLINED);
        }
        graph.absent.style.display = focus ? "none" : "inline";
      });
      reset.disabled = frame === null;
      label();
    }

    // What matches, by function or library, and what it took in each graph; a call within one that
    // matches is counted with it.
    function search() {
      let pattern = null;
      input.removeAttribute("aria-invalid");
      found.textContent = "";
      try {
        pattern = input.value ? new RegExp(input.value, "im") : null;
      } catch (error) {
        input.setAttribute("aria-invalid", "true");
        found.textContent = "not a regular expression (yet)";
      }
      const sums = graphs.map((graph) => {
        let [us, covered] = [0, -1];
        for (const frame of graph.frames) {
          const matches = pattern !== null && pattern.test(frame.lines[0] + "\n" + frame.lines[1]);
          frame.element.classList.toggle("match", matches);
          if (matches && frame.number > covered) [us, covered] = [us + frame.us, frame.last];
        }
        graph.svg.classList.toggle("has-search", pattern !== null);
        return us;
      });
      if (pattern === null) return;
      const sides = sums.map((us, index) => `${"AB"[index]} ${figure(us)} ${unit}, ${percent(us, graphs[index].frames[0]?.us)}`);
      found.textContent = `${sides.join(" · ")} · difference ${signed(sums[1] - sums[0])} ${unit}`;
    }

    function focusOn(graph, frame) {
      for (const other of graph.frames) other.element.setAttribute("tabindex", other === frame ? "0" : "-1");
      frame.element.focus();
    }

    // Where an arrow leads: to a caller, the widest callee, or a neighbour of the same row.
    function neighbour(graph, frame, key) {
      const shown = graph.frames.filter((other) => other.shown);
      if (key === "Home") return shown[0];
      if (key === "ArrowDown") return shown.find((other) => other.number > frame.number && other.number <= frame.last);
      if (key === "ArrowUp") return shown.findLast((other) => other.number < frame.number && other.last >= frame.number);
      const row = shown.filter((other) => other.row === frame.row);
      return row[row.indexOf(frame) + (key === "ArrowRight" ? 1 : -1)];
    }

    function press(graph, event) {
      const frame = frameAt(graph, event);
      if (!frame || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "Enter" || event.key === " ") {
        zoom(frame);
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
      for (const frame of graph.frames) {
        frame.element.setAttribute("role", "treeitem");
        frame.element.setAttribute("aria-label", frame.lines.filter(Boolean).join(", "));
        frame.element.setAttribute("tabindex", frame.number === 0 ? "0" : "-1");
      }
      graph.svg.addEventListener("mouseover", (event) => tell(frameAt(graph, event)));
      graph.svg.addEventListener("mouseleave", () => tell(zoomed));
      graph.svg.addEventListener("click", (event) => {
        const frame = frameAt(graph, event);
        if (frame) zoom(frame.number === 0 ? null : frame);
      });
      graph.svg.addEventListener("keydown", (event) => press(graph, event));
    }
    // Of the document: an SVG element that listens to it could be focused itself.
    document.addEventListener("focusin", (event) => {
      const graph = graphs.find(({ svg }) => svg.contains(event.target));
      if (graph) tell(frameAt(graph, event));
    });
    place.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !(event.target === input && input.value)) zoom(null);
    });
    reset.addEventListener("click", () => zoom(null));
    input.addEventListener("input", search);
    addEventListener("resize", label);
    addEventListener("toggle", label, true);
    controls.removeAttribute("hidden");
    place.classList.add("ready");
    zoom(null);
    search();
  }

  for (const place of document.querySelectorAll(".flame-graph")) start(place);
})();

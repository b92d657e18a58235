// Shows values where the pointer is, and zooms timelines. The page reads as well without it.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const numbers = (text) => text.split(" ").map(Number);
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";

  const hide = () => { tip.style.display = "none"; };
  const show = (text, event) => {
    tip.textContent = text;
    tip.style.display = "block";
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(0, Math.min(event.pageX + 14, room)) + "px";
    tip.style.top = event.pageY + 18 + "px";
  };

  const add = (parent, name, attributes) => {
    const element = parent.appendChild(document.createElementNS(SVG, name));
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };

  // The pointer's x in the units of a drawing.
  const pointerX = (svg, event) =>
    new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;

  // Titles become tips, which show at once.
  for (const title of document.querySelectorAll("figure rect > title")) {
    const text = title.textContent;
    title.parentNode.addEventListener("pointermove", (event) => show(text, event));
    title.parentNode.addEventListener("pointerleave", hide);
    title.remove();
  }

  for (const svg of document.querySelectorAll("svg.lines")) {
    const [left, top, width, height] = numbers(svg.dataset.box);
    const [low, high] = numbers(svg.dataset.x);
    const series = [...svg.querySelectorAll("[data-xy]")].map((path) => {
      const values = path.dataset.xy ? numbers(path.dataset.xy) : [];
      return {name: path.dataset.name,
              points: values.flatMap((x, i) => (i % 2 ? [] : [[x, values[i + 1]]]))};
    }).filter((line) => line.points.length > 0);
    if (series.length === 0) continue;
    const cursor = add(svg, "line", {class: "cursor", y1: top, y2: top + height,
                                     visibility: "hidden"});
    svg.addEventListener("pointermove", (event) => {
      const at = low + (pointerX(svg, event) - left) / width * (high - low);
      const near = series.map((line) => line.points.reduce(
        (best, point) => (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best)));
      const x = near.reduce((best, point) =>
        (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best))[0];
      const pixel = left + (x - low) / (high - low) * width;
      cursor.setAttribute("x1", pixel);
      cursor.setAttribute("x2", pixel);
      cursor.setAttribute("visibility", "visible");
      show([`${svg.dataset.label}: ${x}`,
            ...series.map((line, i) => `${line.name}: ${near[i][1]}`)].join("\n"), event);
    });
    svg.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      hide();
    });
  }

  // Ticks at multiples of 1, 2 or 5 times a power of ten, as in the SVG's first view.
  const drawTicks = (svg, from, to) => {
    const [left, top, width, height] = numbers(svg.dataset.box);
    const group = svg.querySelector(".ticks");
    const rough = (to - from) / (width / 65);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    group.replaceChildren();
    for (let i = Math.ceil(from / step - 1e-6); i * step <= to + step * 1e-6; ++i) {
      const x = left + (i * step - from) / (to - from) * width;
      add(group, "line", {class: "grid", x1: x, x2: x, y1: top, y2: top + height + 4,
                          stroke: "#e5e8eb"});
      add(group, "text", {class: "faint", x, y: top + height + 17, "text-anchor": "middle",
                          fill: "#57606a"}).textContent = (i * step).toFixed(digits);
    }
  };

  for (const svg of document.querySelectorAll("svg.timeline")) {
    const [left, top, width, height] = numbers(svg.dataset.box);
    const [, end] = numbers(svg.dataset.x);
    const spans = svg.querySelector(".spans");
    let view = [0, end];
    let start = null;
    let choice = null;
    const look = (from, to) => {
      const least = end / 1e5;
      if (to - from < least) return;
      view = [Math.max(0, from), Math.min(end, to)];
      spans.setAttribute("viewBox", `${view[0]} 0 ${view[1] - view[0]} ${height}`);
      drawTicks(svg, view[0], view[1]);
    };
    const share = (event) =>
      Math.max(0, Math.min(1, (pointerX(svg, event) - left) / width));
    const time = (part) => view[0] + part * (view[1] - view[0]);
    svg.addEventListener("pointerdown", (event) => {
      const x = pointerX(svg, event);
      if (event.button !== 0 || x < left || x > left + width) return;
      event.preventDefault();
      start = share(event);
      choice = add(svg, "rect", {class: "choice", y: top, height, "pointer-events": "none"});
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!choice) return;
      const now = share(event);
      choice.setAttribute("x", left + Math.min(start, now) * width);
      choice.setAttribute("width", Math.abs(now - start) * width);
    });
    const finish = (event) => {
      if (!choice) return;
      choice.remove();
      choice = null;
      const now = share(event);
      if (event.type === "pointerup" && Math.abs(now - start) * width > 4) {
        look(time(Math.min(start, now)), time(Math.max(start, now)));
      }
    };
    svg.addEventListener("pointerup", finish);
    svg.addEventListener("pointercancel", finish);
    svg.addEventListener("dblclick", () => look(0, end));
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const at = time(share(event));
      const factor = event.deltaY < 0 ? 0.7 : 1 / 0.7;
      look(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
    }, {passive: false});
  }
  for (const figure of document.querySelectorAll("figure")) {
    if (!figure.querySelector(".timeline")) continue;
    const hint = figure.appendChild(document.createElement("p"));
    hint.className = "hint";
    hint.textContent = "Drag to zoom in, Ctrl and wheel to zoom, double-click to see all.";
  }
})();

// Charts take the page's colours, and are drawn again when the reader switches between light and dark.
(() => {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = [];
  const draw = () => {
    drawn.splice(0).forEach((view) => view.finalize());
    const css = getComputedStyle(document.documentElement);
    const [ink, soft, line, font] = ["--ink", "--soft", "--line", "--font"].map((v) => css.getPropertyValue(v).trim());
    const text = { labelColor: soft, titleColor: soft, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
    const config = {
      background: null, font, view: { stroke: null },
      axis: { ...text, gridColor: line, domainColor: line, tickColor: line, labelOverlap: true },
      legend: { ...text, labelFontSize: 13, symbolStrokeWidth: 3, columns: innerWidth < 600 ? 2 : 0 },
      text: { color: ink, fontSize: 12 }, rule: { color: ink },
    };
    const tooltip = { theme: dark.matches ? "dark" : "light" };
    const options = { mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, config, tooltip };
    for (const holder of document.querySelectorAll("[data-chart]")) {
      const spec = JSON.parse(document.getElementById(holder.dataset.chart).textContent);
      vegaEmbed(holder, spec, options).then((view) => drawn.push(view)).catch((error) => {
        holder.textContent = "This chart could not be drawn: " + error.message;
        console.error(error);
      });
    }
  };
  dark.addEventListener("change", draw);
  draw();
})();

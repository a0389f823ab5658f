/** `plot FILE TITLE Y_LABEL SERIES_JSON`: draws how cost grows, with the project's own plots. */
import { writeFileSync } from "node:fs";
import { svgPlot } from "../../packages/tinklet/src/cli/plot/plot-svg.ts";

const [file, title, yLabel, series] = process.argv.slice(2) as [string, string, string, string];
writeFileSync(file, svgPlot(JSON.parse(series), { title, yLabel, xLabel: "doublings from the smallest" }));

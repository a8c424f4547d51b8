/** A picture of the page as a file that stands alone: SVG, or PNG. */

import { download } from "./download";

/** Properties that a picture's look consists of; the rest comes from attributes. */
const PROPERTIES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-opacity",
  "stroke-linecap",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
  "paint-order",
  "visibility",
  "display",
] as const;

/** Dots that are drawn on a canvas over the picture, and stand in a file as a path. */
export interface Extra {
  color: string;
  d: string;
  width: number;
}

/** The text of an SVG file: styles are written into attributes, and scripts' traces left out. */
export function standalone(svg: SVGSVGElement, background: string, extras: readonly Extra[] = []): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const target = to[i];
    if (!target) return;
    const style = getComputedStyle(element);
    for (const property of PROPERTIES) {
      const value = style.getPropertyValue(property);
      if (value !== "") target.setAttribute(property, value);
    }
    for (const name of ["class", "tabindex", "style"]) target.removeAttribute(name);
  });
  for (const skipped of copy.querySelectorAll("[data-export=no]")) skipped.remove();
  const [x = "0", y = "0", width = "1000", height = "1000"] = (svg.getAttribute("viewBox") ?? "").split(
    /\s+/,
  );
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", "1000");
  copy.setAttribute("height", String((1000 * Number(height)) / Math.max(1, Number(width))));
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, fill: background })) {
    ground.setAttribute(name, value);
  }
  copy.prepend(ground);
  for (const extra of extras) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const attributes = { d: extra.d, stroke: extra.color, "stroke-width": String(extra.width) };
    for (const [name, value] of Object.entries({ ...attributes, "stroke-linecap": "round", fill: "none" })) {
      path.setAttribute(name, value);
    }
    copy.append(path);
  }
  return new XMLSerializer().serializeToString(copy);
}

export function exportSvg(svg: SVGSVGElement, name: string, extras: readonly Extra[] = []): void {
  const ground = getComputedStyle(document.documentElement).backgroundColor;
  download(`${name}.svg`, new Blob([standalone(svg, ground, extras)], { type: "image/svg+xml" }));
}

/** PNG with 2000 pixels a side. */
export async function exportPng(
  svg: SVGSVGElement,
  name: string,
  extras: readonly Extra[] = [],
): Promise<void> {
  const ground = getComputedStyle(document.documentElement).backgroundColor;
  const url = URL.createObjectURL(new Blob([standalone(svg, ground, extras)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    await new Promise<void>((done, failed) => {
      image.onload = () => done();
      image.onerror = () => failed(new Error("the browser cannot draw the picture"));
      image.src = url;
    });
    const canvas = document.createElement("canvas");
    canvas.width = 2000;
    canvas.height = Math.round((2000 * image.height) / Math.max(1, image.width));
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
    if (!blob) throw new Error("the browser cannot make a PNG of this size");
    download(`${name}.png`, blob);
  } finally {
    URL.revokeObjectURL(url);
  }
}

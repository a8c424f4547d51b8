import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { contrast, heat, inkOn, mix, nodeColor, NOBODY, shade, type Theme } from "../../src/model/palette";

const THEMES: Theme[] = ["dark", "light", "contrast", "safe"];
const css = readFileSync(new URL("../../src/styles/tokens.css", import.meta.url), "utf8");

/** A colour of a theme, from its block of the style sheet. */
function token(theme: Theme, name: string): string {
  const block = css.split(`:root.${theme} {`)[1]?.split("}")[0] ?? "";
  const found = new RegExp(`--${name}: (#[0-9a-f]{6});`).exec(block)?.[1];
  if (!found) throw new Error(`${theme} has no --${name}`);
  return found;
}

/** How a colour looks to people who lack one kind of cone (Viénot, Brettel and Mollon, 1999). */
function simulate(hex: string, kind: "protan" | "deutan"): number[] {
  const linear = [1, 3, 5].map((i) => (parseInt(hex.slice(i, i + 2), 16) / 255) ** 2.2);
  const [r = 0, g = 0, b = 0] = linear;
  const rg = kind === "protan" ? 0.11238 * r + 0.88762 * g : 0.29275 * r + 0.70725 * g;
  const blue = kind === "protan" ? 0.00401 * r - 0.00401 * g + b : -0.02234 * r + 0.02234 * g + b;
  return [rg, rg, blue].map((value) => Math.max(0, value) ** (1 / 2.2));
}

const distance = (a: number[], b: number[]) => Math.hypot(...a.map((value, i) => value - (b[i] ?? 0)));

describe("colours of nodes", () => {
  it.each(THEMES)("stand out from the panels of theme %s", (theme) => {
    for (let i = 0; i < 8; i++)
      expect(contrast(nodeColor(i, theme), token(theme, "panel"))).toBeGreaterThan(3);
    expect(contrast(NOBODY[theme], token(theme, "panel"))).toBeGreaterThan(2.4);
  });

  it.each(THEMES)("are told apart in theme %s, also without red or green cones", (theme) => {
    for (let i = 0; i < 8; i++) {
      for (let j = 0; j < i; j++) {
        for (const kind of ["protan", "deutan"] as const) {
          const [a, b] = [nodeColor(i, theme), nodeColor(j, theme)].map((hex) => simulate(hex, kind));
          expect(
            distance(a ?? [], b ?? []),
            `${nodeColor(i, theme)} ${nodeColor(j, theme)} ${kind}`,
          ).toBeGreaterThan(0.06);
        }
      }
    }
  });

  it("differ for 24 nodes, and repeat then", () => {
    const colors = Array.from({ length: 24 }, (_, i) => nodeColor(i, "dark"));
    expect(new Set(colors).size).toBe(24);
    expect(nodeColor(24, "dark")).toBe(nodeColor(0, "dark"));
    expect(nodeColor(-1, "dark")).toBe(NOBODY.dark);
  });

  it.each(THEMES)("carry labels that can be read in theme %s", (theme) => {
    for (let i = 0; i < 24; i++) {
      const color = nodeColor(i, theme);
      expect(contrast(inkOn(color), color)).toBeGreaterThan(4.5);
    }
  });

  it("are mixed and shaded", () => {
    expect(mix("#000000", "#ffffff", 0.5)).toBe("#808080");
    expect(shade("#808080", 1)).toBe("#ffffff");
    expect(shade("#808080", -1)).toBe("#000000");
  });
});

describe("texts", () => {
  it.each(THEMES)("can be read in theme %s", (theme) => {
    for (const ground of ["panel", "panel-high", "ground"]) {
      for (const ink of ["text", "muted", "accent", "failing", "degraded", "ok"]) {
        expect(contrast(token(theme, ink), token(theme, ground)), `${ink} on ${ground}`).toBeGreaterThan(4.5);
      }
    }
    for (const verdict of ["ok", "degraded", "failing"]) {
      expect(contrast(token(theme, verdict), token(theme, `${verdict}-ground`))).toBeGreaterThan(4.5);
    }
    expect(contrast(token(theme, "accent-ink"), token(theme, "accent"))).toBeGreaterThan(4.5);
  });
});

describe("heat", () => {
  it.each(THEMES)("goes in one direction of lightness in theme %s", (theme) => {
    const ground = heat(0, theme);
    const steps = Array.from({ length: 11 }, (_, i) => contrast(heat(i / 10, theme), ground));
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
    expect(heat(7, theme)).toBe(heat(1, theme));
    expect(heat(-7, theme)).toBe(heat(0, theme));
  });
});

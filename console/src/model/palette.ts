/**
 * Colours of nodes. Eight that people who lack red or green cones tell apart as well (searched by
 * machine: the least distance of any two, as they see them, is as large as it can be, and a test
 * holds it), in three lightnesses: 24 nodes look different, and further ones repeat. Colour is
 * never the only sign: names stand beside it, and what is hovered or focused stands out.
 */

export type Theme = "dark" | "light" | "contrast" | "safe";

const DARK = ["#5aa9f0", "#f0a83c", "#3fc39a", "#c8fa9e", "#b16512", "#c53c8e", "#795fe2", "#ecd0ff"];
const LIGHT = ["#0b63b5", "#b86a00", "#0a8a63", "#04465d", "#6c0812", "#3c0591", "#8089b7", "#6a5526"];

/** The eight colours of Okabe and Ito, black given up for a pale grey on the dark ground. */
const SAFE = ["#56b4e9", "#e69f00", "#009e73", "#f0e442", "#3b8fd4", "#d55e00", "#cc79a7", "#d9d9d9"];

const BASES: Record<Theme, readonly string[]> = { dark: DARK, light: LIGHT, contrast: DARK, safe: SAFE };
/** How far each round of eight goes towards black or white. */
const ROUNDS = [0, -0.3, 0.38];

export const NOBODY: Record<Theme, string> = {
  dark: "#5b6475",
  light: "#9aa1ad",
  contrast: "#9a9a9a",
  safe: "#6c7686",
};

/** Mixes a colour with black (negative) or white (positive). */
export function shade(hex: string, by: number): string {
  const target = by < 0 ? 0 : 255;
  const part = Math.abs(by);
  const channel = (at: number) => {
    const value = parseInt(hex.slice(at, at + 2), 16);
    return Math.round(value + (target - value) * part)
      .toString(16)
      .padStart(2, "0");
  };
  return `#${channel(1)}${channel(3)}${channel(5)}`;
}

/** The colour of the node at a place in the order of joining; below 0: nobody. */
export function nodeColor(index: number, theme: Theme): string {
  if (index < 0) return NOBODY[theme];
  const base = BASES[theme][index % 8] ?? NOBODY[theme];
  return shade(base, ROUNDS[Math.floor(index / 8) % ROUNDS.length] ?? 0);
}

/** A colour between two, for heat: `part` from 0 to 1. */
export function mix(from: string, to: string, part: number): string {
  const at = Math.min(1, Math.max(0, part));
  const channel = (i: number) => {
    const [a, b] = [parseInt(from.slice(i, i + 2), 16), parseInt(to.slice(i, i + 2), 16)];
    return Math.round(a + (b - a) * at)
      .toString(16)
      .padStart(2, "0");
  };
  return `#${channel(1)}${channel(3)}${channel(5)}`;
}

/** Stops of the heat scale: dark violet over orange to pale yellow, even in lightness. */
const HEAT: Record<Theme, readonly string[]> = {
  dark: ["#1b2030", "#3d2c6b", "#8a3a80", "#d9584f", "#f59f3d", "#fbe9a0"],
  light: ["#eef0f4", "#f5dfa8", "#f2ab5a", "#d9643f", "#93346a", "#3b1d5e"],
  contrast: ["#000000", "#3a1f78", "#9a2f8a", "#ef5340", "#ffae3b", "#fffbd0"],
  safe: ["#10151f", "#123c63", "#2a6fa3", "#7fa6b5", "#d9c56a", "#fff3a8"],
};

export function heat(part: number, theme: Theme): string {
  const stops = HEAT[theme];
  const at = Math.min(1, Math.max(0, part)) * (stops.length - 1);
  const low = Math.min(stops.length - 2, Math.floor(at));
  return mix(stops[low] ?? "#000000", stops[low + 1] ?? "#000000", at - low);
}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}

/** The contrast of two colours by WCAG: 1 to 21. */
export function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return ((light ?? 0) + 0.05) / ((dark ?? 0) + 0.05);
}

/** Black or white, whichever is read more easily on a colour. */
export function inkOn(hex: string): string {
  return contrast(hex, "#000000") >= contrast(hex, "#ffffff") ? "#000000" : "#ffffff";
}

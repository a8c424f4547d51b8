/** What the viewer has chosen, remembered by the browser. */

import type { Theme } from "../model/palette";

export const THEMES = ["system", "dark", "light", "contrast", "safe"] as const;
export type ThemeChoice = (typeof THEMES)[number];
export const MOTIONS = ["system", "on", "off"] as const;
export type MotionChoice = (typeof MOTIONS)[number];

export interface Choices {
  theme: ThemeChoice;
  motion: MotionChoice;
  /** Thickness of lines and size of labels in pictures, in parts of the usual. */
  lines: number;
  labels: number;
  /** Requests a second that are sampled while a view shows samples. */
  samples: number;
  /** Layers of the ring that are off, with commas between, and how its shards are placed. */
  hide: string;
  view: "" | "physical";
}

export const DEFAULTS: Choices = {
  theme: "system",
  motion: "system",
  lines: 1,
  labels: 1,
  samples: 20,
  hide: "",
  view: "",
};
const STORE = "carillon-console";

/** Reads choices that were stored; what makes no sense becomes the default. */
export function readChoices(text: string | null): Choices {
  let stored: Partial<Record<keyof Choices, unknown>>;
  try {
    stored = (JSON.parse(text ?? "{}") ?? {}) as typeof stored;
  } catch {
    stored = {};
  }
  const oneOf = <T extends string>(value: unknown, all: readonly T[], otherwise: T): T =>
    all.includes(value as T) ? (value as T) : otherwise;
  const within = (value: unknown, low: number, high: number, otherwise: number) =>
    typeof value === "number" && value >= low && value <= high ? value : otherwise;
  return {
    theme: oneOf(stored.theme, THEMES, DEFAULTS.theme),
    motion: oneOf(stored.motion, MOTIONS, DEFAULTS.motion),
    lines: within(stored.lines, 0.5, 3, DEFAULTS.lines),
    labels: within(stored.labels, 0.5, 3, DEFAULTS.labels),
    samples: within(stored.samples, 1, 1000, DEFAULTS.samples),
    hide: typeof stored.hide === "string" && /^[a-z,]*$/.test(stored.hide) ? stored.hide : DEFAULTS.hide,
    view: oneOf(stored.view, ["", "physical"] as const, DEFAULTS.view),
  };
}

/** Choices that stand in the address of every view, so that a link shows the same picture. */
export const LINKED = ["theme", "motion", "lines", "labels"] as const;

/** These choices as parameters of an address; what is as usual is left out: "". */
export function toParams(choices: Choices): Record<string, string> {
  return Object.fromEntries(
    LINKED.map((name) => [name, choices[name] === DEFAULTS[name] ? "" : String(choices[name])]),
  );
}

/** Choices with those that an address names; what makes no sense there is left as it was. */
export function withParams(choices: Choices, params: Readonly<Record<string, string>>): Choices {
  const named: Record<string, unknown> = { ...choices };
  for (const name of LINKED) {
    const value = params[name];
    if (value === undefined) continue;
    const read = typeof DEFAULTS[name] === "number" ? Number(value) : value;
    const judged = readChoices(JSON.stringify({ ...choices, [name]: read }));
    if (judged[name] === read) named[name] = read;
  }
  return named as unknown as Choices;
}

class Settings {
  choices = $state.raw<Choices>(DEFAULTS);
  #systemDark = $state(true);
  #systemStill = $state(false);

  start(): () => void {
    try {
      this.choices = readChoices(localStorage.getItem(STORE));
    } catch {
      // Storage is off: choices last as long as the page.
    }
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const read = () => {
      this.#systemDark = dark.matches;
      this.#systemStill = still.matches;
    };
    read();
    dark.addEventListener("change", read);
    still.addEventListener("change", read);
    return () => {
      dark.removeEventListener("change", read);
      still.removeEventListener("change", read);
    };
  }

  change(changes: Partial<Choices>): void {
    this.choices = { ...this.choices, ...changes };
    try {
      localStorage.setItem(STORE, JSON.stringify(this.choices));
    } catch {
      // As above.
    }
  }

  /** Takes over what an address names, without remembering it. */
  adopt(params: Readonly<Record<string, string>>): void {
    const next = withParams(this.choices, params);
    if (JSON.stringify(next) !== JSON.stringify(this.choices)) this.choices = next;
  }

  get theme(): Theme {
    if (this.choices.theme !== "system") return this.choices.theme;
    return this.#systemDark ? "dark" : "light";
  }

  get isStill(): boolean {
    return this.choices.motion === "system" ? this.#systemStill : this.choices.motion === "off";
  }
}

export const settings = new Settings();

/**
 * Models of the last minutes. Models are immutable and share what did not change, so that keeping
 * hundreds costs little; every view can show any of them.
 */

import type { Model } from "./model";

/** With one model a second: ten minutes. */
export const MODELS_MAX = 600;
/** Models closer together replace each other. */
export const SPACING_MS = 900;

export function remember(history: readonly Model[], model: Model, max = MODELS_MAX): Model[] {
  const before = history.at(-2);
  const last = history.at(-1);
  const replaces = before && last && last.atMs - before.atMs < SPACING_MS;
  return [...(replaces ? history.slice(0, -1) : history), model].slice(-max);
}

/** The newest model that is not younger than a time; else the oldest. */
export function modelAt(history: readonly Model[], atMs: number): Model | null {
  return history.findLast((model) => model.atMs <= atMs) ?? history[0] ?? null;
}

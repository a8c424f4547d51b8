/** Which time the charts show. Pure. */

export interface Span {
  fromMs: number;
  toMs: number;
}

/** A young page shows what it has, not an empty past, but so much at least. */
const SHOWN_MIN_MS = 20_000;
/** A span that is picked is so long at least. */
export const SPAN_MIN_MS = 10_000;

/** The window that follows: it ends now, and begins where the page began. */
export function windowOf(endMs: number, lengthMs: number, firstMs: number): Span {
  return { fromMs: Math.min(endMs - SHOWN_MIN_MS, Math.max(endMs - lengthMs, firstMs)), toMs: endMs };
}

/** What the address names; `null`: nothing, or no span. */
export function spanOf(from: string, to: string): Span | null {
  if (from === "" || to === "") return null;
  const [fromMs, toMs] = [Number(from), Number(to)];
  return Number.isFinite(fromMs) && Number.isFinite(toMs) && fromMs < toMs ? { fromMs, toMs } : null;
}

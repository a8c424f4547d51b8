/** Links between nodes, each once, from what their two ends tell. Pure. */

import type { LinkTraffic } from "../../model/timeline";

export interface Link {
  a: string;
  b: string;
  /** Whether an end says that there is a connection. */
  isConnected: boolean;
  /** The only end that says so, while the other one was heard and does not. */
  onlyAt: string | null;
  roundTripSeconds: number | null;
  /** Bytes a second from `a` to `b`, and from `b` to `a`. */
  there: number;
  back: number;
}

/** So many are listed. */
export const LISTED_MAX = 500;

/** `a` is the end that told, or told first: what the other end told is used for whether they agree. */
export function pairs(links: readonly LinkTraffic[]): Link[] {
  const found = new Map<string, Link>();
  for (const link of links) {
    const key = [link.from, link.id].sort().join(" ");
    const known = found.get(key);
    if (!known) {
      found.set(key, {
        a: link.from,
        b: link.id,
        isConnected: link.isConnected,
        onlyAt: null,
        roundTripSeconds: link.roundTripSeconds,
        there: link.outBytes,
        back: link.inBytes,
      });
    } else if (known.a !== link.from) {
      if (known.isConnected !== link.isConnected) known.onlyAt = known.isConnected ? known.a : link.from;
      known.isConnected ||= link.isConnected;
      known.roundTripSeconds ??= link.roundTripSeconds;
    }
  }
  // What is missing first, then what carries most.
  const rank = (link: Link) => (!link.isConnected ? 0 : link.onlyAt !== null ? 1 : 2);
  return [...found.values()].sort((x, y) => rank(x) - rank(y) || y.there + y.back - x.there - x.back);
}

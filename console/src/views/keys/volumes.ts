/** Volumes as people write and read them. */

import type { Keyspace, VolumeOptions } from "../../api/types";

/** A keyspace that is a volume. */
export type Volume = Keyspace & { volume: Required<VolumeOptions> };

export const BLOCKS = [4096, 8192, 16_384, 32_768, 65_536] as const;

const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
  p: 2 ** 50,
};
/** A pebibyte. */
const BYTES_MAX = 2 ** 50;

/** A size like `64GiB`, `512M` or a number of bytes. */
export function parseSize(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?\s*$/i.exec(text);
  if (!match) return null;
  const bytes = Number(match[1]) * (UNITS[(match[2] ?? "").toLowerCase()] ?? 1);
  return Number.isInteger(bytes) && bytes > 0 && bytes <= BYTES_MAX ? bytes : null;
}

/** Why a volume cannot be so large; nothing if it can. */
export function sizeProblem(text: string, blockBytes: number): string {
  const bytes = parseSize(text);
  if (bytes === null) return "A size is like 64GiB or 512MiB, at most 1 PiB.";
  return bytes % blockBytes === 0 ? "" : `It is no whole number of blocks of ${blockBytes / 1024} KiB.`;
}

export function volumesOf(keyspaces: readonly Keyspace[]): Volume[] {
  const defaults = { block_bytes: BLOCKS[0], shared: false };
  return keyspaces.flatMap((each) =>
    each.volume ? [{ ...each, volume: { ...defaults, ...each.volume } }] : [],
  );
}

/** What a node takes of its machine, in words. Pure. */

import { bytes } from "../../model/format";
import type { Uses } from "../../model/timeline";

/** Of one processor, or in processors if it is more than one. */
export function processorWords(processors: number | null | undefined): string {
  if (processors === null || processors === undefined) return "–";
  return processors < 1 ? `${Math.round(processors * 100)} %` : `${processors.toFixed(1)} processors`;
}

export function usesWords(uses: Uses | undefined): string {
  if (!uses) return "";
  const { processors, memoryBytes, memoryMaxBytes, diskBytes } = uses;
  const max = memoryMaxBytes !== null && memoryMaxBytes > 0 ? ` of ${bytes(memoryMaxBytes)}` : "";
  const parts = [
    processors === null ? "" : processorWords(processors),
    memoryBytes === null ? "" : bytes(memoryBytes) + max,
    diskBytes === null ? "" : bytes(diskBytes),
  ];
  return parts.filter((part) => part !== "").join(" · ");
}

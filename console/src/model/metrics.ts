/** Reads Prometheus' text format: `name{label="value"} 1.5`. */

export interface Sample {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: number;
}

/** Lines that are no samples are left out. */
export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!match?.[1] || match[3] === undefined) continue;
    const value = match[3] === "+Inf" ? Infinity : Number(match[3]);
    if (Number.isNaN(value)) continue;
    samples.push({ name: match[1], labels: parseLabels(match[2] ?? ""), value });
  }
  return samples;
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const match of text.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
    labels[match[1] ?? ""] = (match[2] ?? "").replace(/\\(.)/g, (_, char: string) =>
      char === "n" ? "\n" : char,
    );
  }
  return labels;
}

/** The sum of all samples of a name whose labels are so. */
export function sum(samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number {
  return samples
    .filter((each) => each.name === name && Object.entries(labels).every(([k, v]) => each.labels[k] === v))
    .reduce((total, each) => total + each.value, 0);
}

/** Cumulative counts by upper bound, of a histogram; series of other labels are added up. */
export function buckets(
  samples: readonly Sample[],
  name: string,
  labels: Record<string, string> = {},
): Map<number, number> {
  const found = new Map<number, number>();
  for (const sample of samples) {
    if (sample.name !== `${name}_bucket`) continue;
    if (!Object.entries(labels).every(([k, v]) => sample.labels[k] === v)) continue;
    const le = sample.labels["le"] === "+Inf" ? Infinity : Number(sample.labels["le"]);
    found.set(le, (found.get(le) ?? 0) + sample.value);
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}

/** A quantile of what came between two readings of a histogram; `null` if nothing came. */
export function quantile(before: Map<number, number>, now: Map<number, number>, q: number): number | null {
  const bounds = [...now.keys()];
  const counts = bounds.map((le) => (now.get(le) ?? 0) - (before.get(le) ?? 0));
  const total = counts.at(-1) ?? 0;
  if (total <= 0) return null;
  const wanted = q * total;
  const index = counts.findIndex((cumulative) => cumulative >= wanted);
  const upper = bounds[index] ?? Infinity;
  const lower = index > 0 ? (bounds[index - 1] ?? 0) : 0;
  if (!Number.isFinite(upper)) return lower;
  const [below, within] = [index > 0 ? (counts[index - 1] ?? 0) : 0, counts[index] ?? 0];
  return within > below ? lower + ((upper - lower) * (wanted - below)) / (within - below) : upper;
}

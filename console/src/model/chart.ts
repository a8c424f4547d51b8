/** Arithmetic of charts. Pure. */

/** The next 1, 2 or 5 times a power of ten that is not below a value. */
export function niceMax(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (step * power >= value) return step * power;
  return 10 * power;
}

/** A path through the values that are there; it is broken where one is missing. */
export function linePath(
  times: readonly number[],
  values: readonly (number | null)[],
  x: (atMs: number) => number,
  y: (value: number) => number,
): string {
  let path = "";
  let isOpen = false;
  times.forEach((time, i) => {
    const value = values[i] ?? null;
    if (value === null) {
      isOpen = false;
      return;
    }
    path += `${isOpen ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    isOpen = true;
  });
  return path;
}

/** The index of the time that is nearest to another. */
export function nearest(times: readonly number[], atMs: number): number {
  let best = -1;
  times.forEach((time, i) => {
    if (best < 0 || Math.abs(time - atMs) < Math.abs((times[best] ?? 0) - atMs)) best = i;
  });
  return best;
}

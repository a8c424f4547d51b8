/**
 * Answers come whole, and mostly say what was known. What has not changed is taken over as the same
 * object, so that views need not look at it again.
 */

export function equals(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const names = Object.keys(left);
  return names.length === Object.keys(right).length && names.every((name) => equals(left[name], right[name]));
}

/** The new list, with the old objects where they are equal; the old list if all are. */
export function reuse<T extends { id: number | string }>(old: readonly T[], now: readonly T[]): readonly T[] {
  const known = new Map(old.map((each) => [each.id, each]));
  const merged = now.map((each) => {
    const before = known.get(each.id);
    return before !== undefined && equals(before, each) ? before : each;
  });
  return merged.length === old.length && merged.every((each, i) => each === old[i]) ? old : merged;
}

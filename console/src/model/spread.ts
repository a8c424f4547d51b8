/** How even values are. */
export function spread(values: readonly number[]): { mean: number; max: number; deviation: number } {
  if (values.length === 0) return { mean: 0, max: 0, deviation: 0 };
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  // As the balancer has it: in parts of the mean.
  return { mean, max: Math.max(...values), deviation: mean > 0 ? Math.sqrt(variance) / mean : 0 };
}

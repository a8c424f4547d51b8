/**
 * Springs that numbers move on: what changes glides to its new place, so that the eye follows.
 * Exact solution of the damped spring, so that a slow frame does not overshoot.
 */

export interface Spring {
  value: number;
  velocity: number;
  target: number;
}

/** How stiff: it settles in about 5 / OMEGA seconds. */
export const OMEGA = 14;
const STILL = 1e-4;

export function at(value: number): Spring {
  return { value, velocity: 0, target: value };
}

/** Moves a critically damped spring on by a time in seconds. */
export function step(spring: Spring, seconds: number, omega = OMEGA): Spring {
  const offset = spring.value - spring.target;
  const rate = spring.velocity + omega * offset;
  const decay = Math.exp(-omega * seconds);
  const value = spring.target + (offset + rate * seconds) * decay;
  const velocity = (spring.velocity - rate * omega * seconds) * decay;
  return { value, velocity, target: spring.target };
}

export function isStill(spring: Spring, scale = 1): boolean {
  return (
    Math.abs(spring.value - spring.target) < STILL * scale && Math.abs(spring.velocity) < STILL * 10 * scale
  );
}

/** Numbers by name, each on its spring: `{"3": [from, to]}`. */
export class SpringSet {
  #springs = new Map<string, Spring[]>();

  /** Sets the targets. A new name begins at `birth`, or at its target; a name that is missing is gone. */
  aim(
    targets: ReadonlyMap<string, readonly number[]>,
    birth?: (name: string) => readonly number[] | undefined,
  ): void {
    const springs = new Map<string, Spring[]>();
    for (const [name, values] of targets) {
      const known = this.#springs.get(name);
      const begin = known ? undefined : birth?.(name);
      springs.set(
        name,
        values.map((target, i) => {
          const old = known?.[i];
          return old ? { ...old, target } : { ...at(begin?.[i] ?? target), target };
        }),
      );
    }
    this.#springs = springs;
  }

  /** Goes on by a time; returns whether anything still moves. */
  advance(seconds: number, scale = 1): boolean {
    let isMoving = false;
    for (const [name, springs] of this.#springs) {
      this.#springs.set(
        name,
        springs.map((spring) => {
          const next = step(spring, seconds);
          if (isStill(next, scale)) return at(next.target);
          isMoving = true;
          return next;
        }),
      );
    }
    return isMoving;
  }

  /** Ends all motion at once. */
  settle(): void {
    for (const [name, springs] of this.#springs)
      this.#springs.set(
        name,
        springs.map((each) => at(each.target)),
      );
  }

  values(): Map<string, number[]> {
    return new Map([...this.#springs].map(([name, springs]) => [name, springs.map((each) => each.value)]));
  }
}

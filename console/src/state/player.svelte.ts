/** Plays steps in equal time each: lookups hop by hop. */

export const SPEEDS = [0.25, 0.5, 1, 2, 4] as const;
/** How long one step takes at speed 1. */
const STEP_SECONDS = 0.9;

export class Player {
  /** From 0 to the number of steps. */
  at = $state(0);
  speed = $state(1);
  isPlaying = $state(false);
  #length = 0;
  #frame = 0;
  #last = 0;

  get length(): number {
    return this.#length;
  }

  /** Begins with other steps: at their end if nothing is to move. */
  load(length: number, isStill: boolean): void {
    this.stop();
    this.#length = length;
    this.at = isStill ? length : 0;
    if (!isStill && length > 0) this.play();
  }

  play(): void {
    if (this.isPlaying || this.#length === 0) return;
    if (this.at >= this.#length) this.at = 0;
    this.isPlaying = true;
    this.#last = performance.now();
    this.#frame = requestAnimationFrame(this.#step);
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
    this.isPlaying = false;
  }

  /** To the next or the last whole step. */
  step(by: 1 | -1): void {
    this.stop();
    const whole = by > 0 ? Math.floor(this.at + 1e-9) + 1 : Math.ceil(this.at - 1e-9) - 1;
    this.at = Math.min(this.#length, Math.max(0, whole));
  }

  #step = (now: number) => {
    const seconds = Math.min(0.1, Math.max(0, (now - this.#last) / 1000));
    this.#last = now;
    this.at = Math.min(this.#length, this.at + (seconds * this.speed) / STEP_SECONDS);
    if (this.at >= this.#length) this.isPlaying = false;
    else this.#frame = requestAnimationFrame(this.#step);
  };
}

/** Runs springs by the frames of the browser, and only while something moves. */

import { SpringSet } from "../model/spring";

/** A frame that took longer counts as so long: after a pause nothing jumps. */
const FRAME_SECONDS_MAX = 0.05;

export class Motion {
  #springs = new SpringSet();
  #frame = 0;
  #last = 0;
  #scale: number;
  values = $state.raw<ReadonlyMap<string, number[]>>(new Map());

  /** `scale`: how large the numbers are; the springs rest when they are near in proportion. */
  constructor(scale = 1) {
    this.#scale = scale;
  }

  aim(
    targets: ReadonlyMap<string, readonly number[]>,
    isStill: boolean,
    birth?: (name: string) => readonly number[] | undefined,
  ): void {
    this.#springs.aim(targets, birth);
    if (isStill) {
      this.#springs.settle();
      this.values = this.#springs.values();
      return;
    }
    this.values = this.#springs.values();
    if (this.#frame === 0) {
      this.#last = performance.now();
      this.#frame = requestAnimationFrame(this.#step);
    }
  }

  stop(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
  }

  #step = (now: number) => {
    const seconds = Math.min(FRAME_SECONDS_MAX, Math.max(0, (now - this.#last) / 1000));
    this.#last = now;
    const isMoving = this.#springs.advance(seconds, this.#scale);
    this.values = this.#springs.values();
    this.#frame = isMoving ? requestAnimationFrame(this.#step) : 0;
  };
}

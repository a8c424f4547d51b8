/**
 * Thousands of points on springs, in arrays: what the keys of a picture move on. Points that rest cost
 * nothing. A point keeps its place in the arrays while its name stays.
 */

import { OMEGA } from "./spring";

/** Where points shall be, and the colour of each as a number. */
export interface Targets {
  names: readonly string[];
  x: Float32Array;
  y: Float32Array;
  color: Uint16Array;
}

export const NO_TARGETS: Targets = {
  names: [],
  x: new Float32Array(),
  y: new Float32Array(),
  color: new Uint16Array(),
};

/** A point this near to its target, in units of the picture, is there. */
const NEAR = 0.25;
const SLOW = 2;

export class Swarm {
  names: readonly string[] = [];
  x: Float32Array = new Float32Array();
  y: Float32Array = new Float32Array();
  color: Uint16Array = new Uint16Array();
  #vx: Float32Array = new Float32Array();
  #vy: Float32Array = new Float32Array();
  #tx: Float32Array = new Float32Array();
  #ty: Float32Array = new Float32Array();
  /** Numbers of the points that move; the first `moving` of them count. */
  #list = new Int32Array();
  moving = 0;
  /** Numbers of all points, by colour. */
  #order = new Int32Array();

  get count(): number {
    return this.names.length;
  }

  /** Sets the targets. A new name begins in the middle, but with the first ones, which begin at their places. */
  aim(targets: Targets, isStill: boolean): void {
    const count = targets.names.length;
    const isFirst = this.count === 0;
    if (targets.names !== this.names) this.#rename(targets, isFirst);
    this.#tx = targets.x;
    this.#ty = targets.y;
    this.color = targets.color;
    this.moving = 0;
    if (this.#list.length < count) this.#list = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      const [tx, ty] = [this.#tx[i] ?? 0, this.#ty[i] ?? 0];
      const isThere =
        Math.abs((this.x[i] ?? 0) - tx) < NEAR &&
        Math.abs((this.y[i] ?? 0) - ty) < NEAR &&
        Math.abs(this.#vx[i] ?? 0) + Math.abs(this.#vy[i] ?? 0) < SLOW;
      if (isStill || isThere) this.#arrive(i);
      else this.#list[this.moving++] = i;
    }
    // One colour after the other: a change of colour is the dear part of drawing.
    const { color } = targets;
    const byColor = (a: number, b: number) => (color[a] ?? 0) - (color[b] ?? 0);
    this.#list.subarray(0, this.moving).sort(byColor);
    this.#order = Int32Array.from({ length: count }, (_, i) => i).sort(byColor);
  }

  #rename(targets: Targets, isFirst: boolean): void {
    const before = new Map(this.names.map((name, i) => [name, i]));
    const count = targets.names.length;
    const [x, y, vx, vy] = [0, 1, 2, 3].map(() => new Float32Array(count)) as [
      Float32Array,
      Float32Array,
      Float32Array,
      Float32Array,
    ];
    targets.names.forEach((name, i) => {
      const old = before.get(name);
      if (old !== undefined) {
        x[i] = this.x[old] ?? 0;
        y[i] = this.y[old] ?? 0;
        vx[i] = this.#vx[old] ?? 0;
        vy[i] = this.#vy[old] ?? 0;
      } else if (isFirst) {
        x[i] = targets.x[i] ?? 0;
        y[i] = targets.y[i] ?? 0;
      }
    });
    [this.x, this.y, this.#vx, this.#vy] = [x, y, vx, vy];
    this.names = targets.names;
  }

  #arrive(i: number): void {
    this.x[i] = this.#tx[i] ?? 0;
    this.y[i] = this.#ty[i] ?? 0;
    this.#vx[i] = 0;
    this.#vy[i] = 0;
  }

  /** Goes on by a time; returns how many points still move. */
  advance(seconds: number): number {
    const decay = Math.exp(-OMEGA * seconds);
    const step = (value: Float32Array, velocity: Float32Array, target: number, i: number) => {
      const offset = (value[i] ?? 0) - target;
      const rate = (velocity[i] ?? 0) + OMEGA * offset;
      value[i] = target + (offset + rate * seconds) * decay;
      velocity[i] = ((velocity[i] ?? 0) - rate * OMEGA * seconds) * decay;
    };
    let still = 0;
    for (let k = 0; k < this.moving; k++) {
      const i = this.#list[k] ?? 0;
      const [tx, ty] = [this.#tx[i] ?? 0, this.#ty[i] ?? 0];
      step(this.x, this.#vx, tx, i);
      step(this.y, this.#vy, ty, i);
      const isThere =
        Math.abs((this.x[i] ?? 0) - tx) < NEAR &&
        Math.abs((this.y[i] ?? 0) - ty) < NEAR &&
        Math.abs(this.#vx[i] ?? 0) + Math.abs(this.#vy[i] ?? 0) < SLOW;
      if (isThere) {
        this.#arrive(i);
        still += 1;
      }
    }
    // All are drawn as moving until the last one rests: then the layer below is drawn once.
    if (still === this.moving) this.moving = 0;
    return this.moving - (this.moving === 0 ? 0 : still);
  }

  /** The points that are not on the moving layer, by colour. */
  resting(): Int32Array {
    if (this.moving === 0) return this.#order;
    const isMoving = new Uint8Array(this.count);
    for (const i of this.movers()) isMoving[i] = 1;
    return this.#order.filter((i) => isMoving[i] === 0);
  }

  /** The points that are drawn on the moving layer, by colour. */
  movers(): Int32Array {
    return this.#list.subarray(0, this.moving);
  }

  /** The point nearest to a place and not further than a distance; -1: none. */
  nearest(x: number, y: number, within: number): number {
    let [best, found] = [within * within, -1];
    for (let i = 0; i < this.count; i++) {
      const distance = ((this.x[i] ?? 0) - x) ** 2 + ((this.y[i] ?? 0) - y) ** 2;
      if (distance < best) [best, found] = [distance, i];
    }
    return found;
  }
}

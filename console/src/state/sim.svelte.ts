/** The simulation behind the page, if there is one: its state, its names, and what is done to it. */

import type { Api } from "../api/client";
import { Poll } from "../api/poll";
import { asProblem, type Problem } from "../api/problem";
import { SimApi, type SimAction, type SimBegin, type SimNames, type SimState } from "../api/sim";
import { describeAction, isAnew, isPrecious, type Begun, type Kept } from "../model/simulation";

/** How often the state is asked for, in milliseconds. */
const INTERVAL_MS = 500;
/** A server that does not answer is asked so often at least. */
const RETURN_MS = 2000;
/** One step at most, where the server does not say. */
const STEP_MS_MAX = 60_000;
/** So many of the last actions are remembered. */
const DONE_MAX = 30;

export interface Done {
  number: number;
  ms: number;
  text: string;
}

export class Simulation {
  readonly api: SimApi;
  /** `null` until a simulation has answered. */
  state = $state.raw<SimState | null>(null);
  names = $state.raw<SimNames | null>(null);
  /** Whether it is known that the server has none. */
  isMissing = $state(false);
  problem = $state.raw<Problem | null>(null);
  isBusy = $state(false);
  done = $state.raw<readonly Done[]>([]);
  /** Who has begun what runs now. */
  begun = $state<Begun>("server");
  /** The simulation that another one has taken the place of. */
  kept = $state.raw<Kept | null>(null);
  #receivedMs = 0;
  #number = 0;
  #poll: Poll<SimState> | undefined;
  /** Called when a simulation has begun anew. */
  #onAnew: () => void;

  constructor(api: Api, onAnew: () => void) {
    this.api = new SimApi(api);
    this.#onAnew = onAnew;
  }

  get isThere(): boolean {
    return this.state !== null;
  }

  /** The time of the simulated cluster's clocks, or `null` without a simulation. */
  clockMs(): number | null {
    const state = this.state;
    if (!state) return null;
    if (!state.running) return state.wall_ms;
    // Between two answers time goes on; it is not let run ahead of what the next one will say.
    return state.wall_ms + Math.min(INTERVAL_MS, Date.now() - this.#receivedMs) * state.speed;
  }

  /** Finds out whether there is a simulation, and follows it. */
  start(): () => void {
    let isEnded = false;
    this.api
      .state()
      .then((state) => {
        if (isEnded) return;
        this.#take(state);
        // What came before was by the browser's clock.
        this.#onAnew();
        this.#follow();
        this.api.names().then(
          (names) => (this.names = names),
          (error: unknown) => (this.problem = asProblem(error)),
        );
      })
      .catch(() => (this.isMissing = true));
    return () => {
      isEnded = true;
      this.#poll?.stop();
    };
  }

  play = () => this.#do(() => this.api.set({ running: !this.state?.running }));
  step = (ms: number) => this.#do(() => this.api.step(ms));
  setSpeed = (speed: number) => this.#do(() => this.api.set({ speed }));
  check = () => this.#do(() => this.api.check());

  /** Whether it would be a loss if another one took its place. */
  get isPrecious(): boolean {
    return this.state !== null && isPrecious(this.state, this.begun, this.done.length);
  }

  /** Begins another one, and keeps the one before if somebody has made it. */
  reset = (begin: SimBegin, by: Begun = "user") => this.#replace(() => this.api.reset(begin), by);
  open = (file: unknown) => this.#replace(() => this.api.open(file), "file");

  /** Brings the one that was kept back to where it was: it is played again, as fast as it goes. */
  restore = async (): Promise<boolean> => {
    const kept = this.kept;
    if (!kept) return false;
    const isBack = await this.#do(async () => {
      let state = await this.api.open(kept.file);
      const most = this.names?.limits.step_ms_max ?? STEP_MS_MAX;
      while (state.now_ms < kept.now_ms && state.phase !== "broken" && state.phase !== "over") {
        const before = state.now_ms;
        state = await this.api.step(Math.min(most, kept.now_ms - state.now_ms));
        if (state.now_ms <= before) break;
      }
      return kept.running && state.phase === "running" ? this.api.set({ running: true }) : state;
    }, true);
    if (isBack) [this.kept, this.begun] = [null, "file"];
    return isBack;
  };

  async #replace(request: () => Promise<SimState>, by: Begun): Promise<boolean> {
    let kept = this.kept;
    const isDone = await this.#do(async () => {
      const before = this.state;
      if (before && this.isPrecious) {
        const { now_ms, running, kind, seed } = before;
        kept = { file: await this.api.file(), now_ms, running, kind, seed };
      }
      return request();
    }, true);
    if (isDone) [this.kept, this.begun] = [kept, by];
    return isDone;
  }

  /** Does something to it now; `false`: it was refused, and `problem` says why. */
  act = (action: SimAction): Promise<boolean> =>
    this.#do(async () => {
      const { ms } = await this.api.act(action);
      this.#number += 1;
      const done = { number: this.#number, ms, text: describeAction(action) };
      this.done = [done, ...this.done].slice(0, DONE_MAX);
      return this.api.state();
    });

  async #do(request: () => Promise<SimState>, isAnew_ = false): Promise<boolean> {
    this.isBusy = true;
    this.problem = null;
    try {
      const state = await request();
      if (isAnew_) {
        // Its clock counts before anything is forgotten: ages are by the virtual time.
        this.#receivedMs = Date.now();
        this.state = state;
        this.done = [];
        this.#onAnew();
      } else this.#take(state);
      return true;
    } catch (error) {
      this.problem = asProblem(error);
      return false;
    } finally {
      this.isBusy = false;
    }
  }

  #take(state: SimState): void {
    const isOther = isAnew(this.state, state);
    this.#receivedMs = Date.now();
    this.state = state;
    if (isOther) {
      // Somebody else has begun it, at another page.
      this.begun = "user";
      this.done = [];
      this.#onAnew();
    }
  }

  #follow(): void {
    this.#poll = new Poll<SimState>({
      intervalMs: INTERVAL_MS,
      ask: (signal) => this.api.state(signal),
      onAnswer: (state) => this.#take(state),
      onFailure: () => undefined,
      waitMaxMs: RETURN_MS,
    });
    this.#poll.start();
  }
}

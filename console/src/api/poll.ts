/**
 * Asks again and again: one request at a time, slower after failures, not at all while the page is
 * hidden, and at once when somebody asks for it.
 */

/** A failing poll waits twice as long each time, up to this. */
export const BACKOFF_MAX_MS = 30_000;

/** How long to wait after so many failures in a row; `random` from 0 to 1 spreads many pages. */
export function backoff(
  intervalMs: number,
  failures: number,
  random: number,
  maxMs = BACKOFF_MAX_MS,
): number {
  if (failures === 0) return intervalMs;
  const doubled = Math.min(maxMs, intervalMs * 2 ** Math.min(failures, 16));
  return Math.max(intervalMs, doubled * (0.75 + random / 4));
}

export interface PollOptions<T> {
  intervalMs: number;
  ask: (signal: AbortSignal) => Promise<T>;
  onAnswer: (answer: T) => void;
  onFailure: (error: unknown) => void;
  /** The longest wait after failures, if not {@link BACKOFF_MAX_MS}. */
  waitMaxMs?: number;
  random?: () => number;
}

export class Poll<T> {
  readonly #options: PollOptions<T>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortController | undefined;
  #failures = 0;
  #isRunning = false;
  #isHidden = false;

  constructor(options: PollOptions<T>) {
    this.#options = options;
  }

  get failures(): number {
    return this.#failures;
  }

  start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    void this.#round();
  }

  stop(): void {
    this.#isRunning = false;
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = undefined;
  }

  /** While the page is hidden nobody looks: requests stop, and go on at once afterwards. */
  setHidden(isHidden: boolean): void {
    if (this.#isHidden === isHidden) return;
    this.#isHidden = isHidden;
    if (!isHidden) this.refresh();
  }

  /** Asks now, unless a request is under way. */
  refresh(): void {
    if (!this.#isRunning || this.#abort) return;
    clearTimeout(this.#timer);
    void this.#round();
  }

  async #round(): Promise<void> {
    if (this.#isHidden) return;
    const abort = new AbortController();
    this.#abort = abort;
    try {
      const answer = await this.#options.ask(abort.signal);
      if (abort.signal.aborted) return;
      this.#failures = 0;
      this.#options.onAnswer(answer);
    } catch (error) {
      if (abort.signal.aborted) return;
      this.#failures += 1;
      this.#options.onFailure(error);
    } finally {
      if (this.#abort === abort) this.#abort = undefined;
    }
    if (!this.#isRunning) return;
    const { intervalMs, waitMaxMs, random } = this.#options;
    const wait = backoff(intervalMs, this.#failures, (random ?? Math.random)(), waitMaxMs);
    this.#timer = setTimeout(() => void this.#round(), wait);
  }
}

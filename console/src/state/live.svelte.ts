/**
 * The one place that holds what the console knows: it asks the API, follows the events, and keeps
 * the last minutes. Views read `model`, which is the present, or the moment that was picked.
 */

import { Api } from "../api/client";
import { Poll } from "../api/poll";
import { asProblem, type Problem } from "../api/problem";
import type { Metrics, Scope } from "../api/types";
import { appendEvents, compareAt } from "../events/log";
import { applyEvent, RESHAPES } from "../events/reducer";
import { addSample, NO_SAMPLES, samplesUntil, type Samples } from "../events/samples";
import { EventStream, type StreamState } from "../events/stream";
import { GAP, SAMPLE_TYPES, type ClusterEvent } from "../events/types";
import { decodeEvents, isEventFile } from "../model/eventfile";
import { modelAt, remember } from "../model/history";
import { applyAnswer, EMPTY, isHealthKnown, wholeModels, type Answer, type Model } from "../model/model";
import { decodeRecording, encodeRecording, RECORDING_FORMAT, type Recording } from "../model/recording";
import { DevCluster } from "./dev.svelte";
import { Simulation } from "./sim.svelte";
import {
  appendPoint,
  LINKED_NODES_MAX,
  nodeReadings,
  point,
  readMetrics,
  type Reading,
  type TimePoint,
} from "../model/timeline";

/** How often each resource is asked for, in milliseconds. */
export const INTERVALS = {
  status: 2000,
  nodes: 1000,
  shards: 2000,
  keyspaces: 4000,
  decisions: 3000,
  metrics: 2000,
};
/** How long after an event that reshapes shards they are asked for. */
const RESHAPE_DELAY_MS = 150;
/** A node that does not answer is asked so often at least, so that its return is seen at once. */
const RETURN_MS = 2000;

/** How long nodes go on sampling after the last view that shows samples was left: what is under way then
 * comes to its end, and going from view to view begins no new stream. */
export const SAMPLING_LINGER_MS = 20_000;

/** What stands for the directory of a node that is simulated. */
const SIMULATED = "simulated";

type Resource = keyof typeof INTERVALS;
/** What a node tells from memory alone: whether these are answered tells whether it is there. */
const ALIVE: readonly string[] = ["nodes", "status"] satisfies Resource[];

export class Live {
  readonly api: Api;
  /** The simulation behind the page, if there is one. */
  readonly sim: Simulation;
  /** Nodes of `carillon dev`, if the page came from one. */
  readonly dev: DevCluster;
  #present = $state.raw<Model>(EMPTY);
  history = $state.raw<readonly Model[]>([]);
  events = $state.raw<readonly ClusterEvent[]>([]);
  samples = $state.raw<Samples>(NO_SAMPLES);
  points = $state.raw<readonly TimePoint[]>([]);
  stream = $state.raw<StreamState>({ kind: "off" });
  /** Whether the node that answers asks the others as well; older ones do not. */
  scope = $state.raw<Scope>("node");
  /** Set once its answers tell whether it does, or it could not be asked. */
  isScopeKnown = $state(false);
  /** What each resource failed with last, until it is answered again. */
  failures = $state.raw<Readonly<Partial<Record<Resource, Problem>>>>({});
  /** When the node that the page came from answered last, by the browser's clock. */
  answeredMs = $state(0);
  /** The moment that is looked at; `null`: the present. */
  pickedMs = $state<number | null>(null);
  /** Set while a recording is shown instead of the cluster. */
  recording = $state.raw<Recording | null>(null);
  /** The name of its file. */
  recordingName = $state("");
  /** What is wrong with the recording, though it can be shown. */
  notes = $state.raw<readonly string[]>([]);
  nowMs = $state(Date.now());

  #polls: Poll<unknown>[] = [];
  #pollOf = new Map<Resource, Poll<unknown>>();
  #stream: EventStream | undefined;
  /** What views ask for now: requests a second that are sampled. */
  #wanted: number[] = [];
  /** What the stream asks for. */
  #sampling = 0;
  #linger: ReturnType<typeof setTimeout> | undefined;
  /** How the nodes' own streams were last, by their ids. */
  #sources = new Map<string, unknown>();
  #isMet = false;
  #isScopeRefused = false;
  /** How to end what was found besides. */
  #ends: (() => void)[] = [];
  /** When the stream began, by the asked node's hybrid clock. */
  #helloAt = "";
  #reading: Reading | undefined;
  #clock: ReturnType<typeof setInterval> | undefined;
  #reshape: ReturnType<typeof setTimeout> | undefined;

  constructor(api = new Api()) {
    this.api = api;
    this.sim = new Simulation(api, () => this.restart());
    this.dev = new DevCluster(api);
  }

  /** The cluster's time: the browser's clock, or that of the simulation. */
  now(): number {
    return this.sim.clockMs() ?? Date.now();
  }

  /** What views show. */
  get model(): Model {
    const shown = this.recording?.models ?? this.history;
    if (this.pickedMs !== null) return modelAt(shown, this.pickedMs) ?? this.#present;
    return this.recording ? (this.recording.models.at(-1) ?? EMPTY) : this.#present;
  }

  /** The time that the shown moment has. */
  get atMs(): number {
    if (this.pickedMs !== null) return this.pickedMs;
    return this.recording ? (this.recording.models.at(-1)?.atMs ?? 0) : this.nowMs;
  }

  get isLive(): boolean {
    return this.pickedMs === null && this.recording === null;
  }

  /** The span that can be picked from. */
  get span(): { fromMs: number; toMs: number } {
    const models = this.recording?.models ?? this.history;
    return { fromMs: models[0]?.atMs ?? 0, toMs: models.at(-1)?.atMs ?? 0 };
  }

  get shownEvents(): readonly ClusterEvent[] {
    const events = this.recording?.events ?? this.events;
    const until = this.pickedMs;
    return until === null ? events : events.filter((event) => event.atMs <= until);
  }

  /** Samples until the moment that is looked at. */
  get shownSamples(): Samples {
    const samples = this.recording?.samples ?? this.samples;
    return this.pickedMs === null ? samples : samplesUntil(samples, this.pickedMs);
  }

  get shownPoints(): readonly TimePoint[] {
    return this.recording?.points ?? this.points;
  }

  /** The rates of the moment that is looked at. */
  get shownPoint(): TimePoint | undefined {
    const [points, until] = [this.shownPoints, this.pickedMs];
    return until === null ? points.at(-1) : points.findLast((each) => each.atMs <= until);
  }

  /** Whether the node that the page came from does not answer. */
  get unreachable(): Problem | null {
    const problem = this.failures.nodes ?? this.failures.status;
    return problem?.isUnreachable ? problem : null;
  }

  /** Whether what is shown is old, since nobody tells what is now. */
  get isStale(): boolean {
    return this.isLive && this.unreachable !== null;
  }

  start(): () => void {
    this.#poll(
      "status",
      (signal) => this.api.status(signal),
      (value) => {
        this.#meet(value.surfaces ?? [value.dir === SIMULATED ? "sim" : "dev"]);
        this.#answer({ kind: "status", value });
      },
    );
    this.#poll(
      "nodes",
      (signal) => this.api.nodes(signal),
      (value) => this.#answer({ kind: "nodes", value }),
    );
    this.#poll(
      "shards",
      (signal) => this.api.shards(signal, this.scope),
      (value) => {
        this.#answer({ kind: "shards", value });
        this.#widen(value.shards.some((shard) => shard.told_by !== undefined));
      },
    );
    this.#poll(
      "keyspaces",
      (signal) => this.api.keyspaces(signal),
      (value) => this.#answer({ kind: "keyspaces", value }),
    );
    this.#poll(
      "decisions",
      (signal) => this.api.decisions(false, signal, this.scope),
      (value) => this.#answer({ kind: "decisions", value }),
    );
    this.#poll(
      "metrics",
      (signal) =>
        Promise.all([
          this.api.metrics(signal),
          this.scope === "cluster"
            ? this.api.metricsOfAll(this.#present.nodes.length <= LINKED_NODES_MAX, signal)
            : null,
        ]),
      ([text, all]) => this.#metrics(text, all),
    );
    const onVisibility = () => {
      for (const poll of this.#polls) poll.setHidden(document.hidden);
    };
    document.addEventListener("visibilitychange", onVisibility);
    this.#clock = setInterval(() => (this.nowMs = this.now()), 1000);
    this.#follow();

    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      for (const poll of this.#polls) poll.stop();
      clearInterval(this.#clock);
      clearTimeout(this.#reshape);
      clearTimeout(this.#linger);
      this.#stream?.stop();
      for (const end of this.#ends.splice(0)) end();
      this.#isMet = false;
    };
  }

  /** Looks once for what the server answers besides. */
  #meet(surfaces: readonly string[]): void {
    if (this.#isMet) return;
    this.#isMet = true;
    if (surfaces.includes("sim")) this.#ends.push(this.sim.start());
    else this.sim.isMissing = true;
    if (surfaces.includes("dev")) this.#ends.push(this.dev.start());
  }

  /** Asks for the whole cluster from now on, if the node can: its answers say so. */
  #widen(can: boolean): void {
    this.isScopeKnown = true;
    const scope = can && !this.#isScopeRefused ? "cluster" : "node";
    if (scope === this.scope) return;
    this.scope = scope;
    this.refresh("shards", "decisions", "metrics");
  }

  /** Forgets all: another simulation has begun. */
  restart(): void {
    this.#present = EMPTY;
    this.history = [];
    this.events = [];
    this.samples = NO_SAMPLES;
    this.points = [];
    this.pickedMs = null;
    this.#reading = undefined;
    this.#helloAt = "";
    this.#sources.clear();
    this.nowMs = this.now();
    this.#follow(true);
    for (const poll of this.#polls) poll.refresh();
  }

  /** Asks for resources at once, after something was changed. */
  refresh(...resources: Resource[]): void {
    for (const resource of resources) this.#pollOf.get(resource)?.refresh();
  }

  /** Asks nodes to sample requests while a view shows them; returns how to end that. */
  sample(perSecond: number): () => void {
    this.#wanted.push(perSecond);
    this.#resample();
    return () => {
      this.#wanted.splice(this.#wanted.indexOf(perSecond), 1);
      this.#resample();
    };
  }

  /** Changes the stream only if another number of samples is wanted, and after a while if none are. */
  #resample(): void {
    const wanted = Math.max(0, ...this.#wanted);
    clearTimeout(this.#linger);
    if (wanted === this.#sampling) return;
    const change = () => {
      this.#sampling = wanted;
      this.#follow();
    };
    if (wanted > 0) change();
    else this.#linger = setTimeout(change, SAMPLING_LINGER_MS);
  }

  pick(atMs: number | null): void {
    const { fromMs, toMs } = this.span;
    this.pickedMs = atMs === null ? null : Math.min(toMs, Math.max(fromMs, atMs));
  }

  save(): string {
    return encodeRecording({
      format: RECORDING_FORMAT,
      savedAtMs: Date.now(),
      source: "page",
      models: wholeModels(this.history),
      events: this.events,
      points: this.points,
      samples: this.samples,
    });
  }

  /** Shows a recording of a page or of `carillon record`; throws if it is none. */
  load(text: string, name = ""): void {
    if (isEventFile(text)) {
      const { recording, notes } = decodeEvents(text);
      this.recording = recording;
      this.notes = notes;
    } else {
      const recording = decodeRecording(text);
      this.recording = { ...recording, models: wholeModels(recording.models) };
      this.notes = [];
    }
    this.recordingName = name;
    this.pickedMs = this.span.fromMs;
  }

  leaveRecording(): void {
    this.recording = null;
    this.notes = [];
    this.pickedMs = null;
  }

  /** Events of the stream, in the order in which they came. Public for tests. */
  take(events: readonly ClusterEvent[]): void {
    let model = this.#present;
    let samples = this.samples;
    for (const event of events) {
      if (event.type === "hello") this.#helloAt = event.at;
      // What happened before the stream began is in the answers of the API already.
      else if (compareAt(event.at, this.#helloAt) > 0) model = applyEvent(model, event);
      samples = addSample(samples, event);
    }
    const kept = events.filter(
      (event) => !SAMPLE_TYPES.includes(event.type) && event.type !== "hello" && this.#isNews(event),
    );
    if (kept.length > 0) this.events = appendEvents(this.events, kept);
    this.samples = samples;
    this.#keep(model);
    if (events.some((event) => event.type === GAP || RESHAPES.has(event.type))) {
      clearTimeout(this.#reshape);
      this.#reshape = setTimeout(() => this.refresh("shards", "nodes", "decisions"), RESHAPE_DELAY_MS);
    }
  }

  /** Whether an event tells more than that a node's stream goes on as it did. */
  #isNews(event: ClusterEvent): boolean {
    if (event.type !== "node") return true;
    const [of, state] = [String(event.fields["of"]), event.fields["state"]];
    if (this.#sources.get(of) === state) return false;
    this.#sources.set(of, state);
    return true;
  }

  #answer(answer: Answer): void {
    this.#keep(applyAnswer(this.#present, answer, this.now()));
  }

  #keep(model: Model): void {
    if (model === this.#present) return;
    this.#present = model;
    const history = remember(this.history, model);
    // What the page was told piece by piece as it began is no state that the cluster had.
    this.history = history[0] && isHealthKnown(history[0]) ? history : wholeModels(history);
  }

  #metrics(text: string, all: Metrics | null): void {
    const now = readMetrics(text, this.now(), all === null ? undefined : nodeReadings(all));
    const next = this.#reading ? point(this.#reading, now, this.#present) : null;
    this.#reading = now;
    if (next) this.points = appendPoint(this.points, next);
  }

  #poll<T>(resource: Resource, ask: (signal: AbortSignal) => Promise<T>, take: (value: T) => void): void {
    const poll = new Poll<T>({
      intervalMs: INTERVALS[resource],
      ask,
      ...(ALIVE.includes(resource) ? { waitMaxMs: RETURN_MS } : {}),
      onAnswer: (value) => {
        const wasGone = this.unreachable !== null;
        const isAlive = ALIVE.includes(resource);
        // An answer to one of these tells that the node is there again.
        const isOver = (name: string) => name === resource || (isAlive && ALIVE.includes(name));
        if (Object.keys(this.failures).some(isOver)) {
          this.failures = Object.fromEntries(Object.entries(this.failures).filter(([name]) => !isOver(name)));
        }
        if (isAlive) this.answeredMs = Date.now();
        take(value);
        if (wasGone && this.unreachable === null) this.#resume();
      },
      onFailure: (error) => {
        const problem = asProblem(error);
        // An older node has taken the place of the one that could: it is not tried again and again.
        if (this.scope === "cluster" && (problem.status === 400 || problem.status === 404)) {
          this.#isScopeRefused = true;
          this.scope = "node";
        }
        this.isScopeKnown ||= resource === "shards";
        this.failures = { ...this.failures, [resource]: problem };
      },
    });
    this.#polls.push(poll as Poll<unknown>);
    this.#pollOf.set(resource, poll as Poll<unknown>);
    poll.start();
  }

  /** The node is there again: what waits for its next try asks at once. */
  #resume(): void {
    for (const poll of this.#polls) if (poll.failures > 0) poll.refresh();
    if (this.stream.kind === "waiting") this.#follow();
  }

  /** Begins the stream, or begins it anew with another filter, behind the last event. */
  #follow(isAnew = false): void {
    const cursor = isAnew ? "" : (this.#stream?.cursor ?? "");
    this.#stream?.stop();
    const samples = this.#sampling;
    this.#stream = new EventStream({
      // Without a cursor, what nodes still have of the past is wanted.
      filter: { scope: "cluster", from: "0", ...(samples > 0 ? { samples } : {}) },
      cursor,
      onEvents: (events) => this.take(events),
      onState: (state) => (this.stream = state),
    });
    this.#stream.start();
  }
}

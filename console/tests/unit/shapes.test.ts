import { describe, expect, it } from "vitest";
import { describe as describeEvent } from "../../src/events/describe";
import { BadEvent, parseEvent } from "../../src/events/parse";
import { addSample, NO_SAMPLES, samplesUntil } from "../../src/events/samples";
import { decodeEvents } from "../../src/model/eventfile";
import { heatColumns, shapeMarks } from "../../src/model/heatmap";
import { hottest } from "../../src/model/load";
import { healthOf, shardsOf, totals } from "../../src/model/model";
import {
  BadRecording,
  decodeRecording,
  encodeRecording,
  RECORDING_FORMAT,
  type Recording,
} from "../../src/model/recording";
import { layout } from "../../src/model/ring";
import { linksAt, usesAt, type TimePoint } from "../../src/model/timeline";
import { pairs } from "../../src/views/cluster/links";
import { usesWords } from "../../src/views/cluster/uses";
import { isTroubled, placeOf, troubleOf } from "../../src/views/shards/table";
import { event, modelOf, SPLIT, WELL } from "./recording";

const uses = { processors: 0.5, memoryBytes: 1, memoryMaxBytes: null, diskBytes: 2 };
const peer = { id: "b", name: "b", isConnected: true, inBytes: 1, outBytes: 2, roundTripSeconds: null };
const point = {
  atMs: 5,
  commands: 1,
  requestP50: null,
  peers: [peer],
  uses: { a: uses },
  links: [{ ...peer, from: "a" }],
  nodes: [{ id: "a", name: "a", commands: 1, uses }],
  all: { commands: 1, fsyncP50: null },
} as unknown as TimePoint;
const route = {
  lookup: "chord",
  hops: 1,
  micros: 5,
  steps: [{ shard: 1, node: "a", name: "a", by: "finger" }],
};
const samples = [
  event("request", { key: "k", op: "read", route }),
  event("transaction", { txn: "t", phase: "prepare", shards: [1, 2] }),
].reduce(addSample, NO_SAMPLES);
const recording: Recording = {
  format: RECORDING_FORMAT,
  savedAtMs: 5,
  source: "page",
  models: [WELL, SPLIT].map((name) => modelOf(name)),
  events: [event("split")],
  points: [point],
  samples,
};

/** What views compute of a recording before they draw it. */
function look({ models, events, points, samples: found }: Recording): string {
  const words: string[] = [];
  for (const model of models) {
    words.push(JSON.stringify([healthOf(model), totals(model)]));
    words.push(
      ...model.shards.map((shard) => `${placeOf(shard)}${isTroubled(shard) ? troubleOf(shard) : ""}`),
    );
    words.push(String(hottest(model.shards)?.shard.id), String(layout(shardsOf(model, "0"), "keys").length));
  }
  for (const each of points) {
    words.push(...[...usesAt(each).values()].map(usesWords), String(pairs(linksAt(each, "a")).length));
  }
  words.push(...events.map((each) => describeEvent(each, (id) => id)));
  words.push(String(shapeMarks(heatColumns(models, "0", "equal")).length));
  words.push(String(samplesUntil(found, 6).requests.length));
  return words.join();
}

/** All places of a value that hold something, as ways from its root. */
function places(value: unknown, way: readonly string[] = []): string[][] {
  if (typeof value !== "object" || value === null) return [[...way]];
  return [[...way], ...Object.entries(value).flatMap(([name, each]) => places(each, [...way, name]))];
}

function replace(value: unknown, [name, ...rest]: readonly string[], instead: unknown): unknown {
  if (name === undefined) return instead;
  const copy = (Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }) as Record<
    string,
    unknown
  >;
  copy[name] = replace(copy[name], rest, instead);
  return copy;
}

describe("a recording of a page that was changed by somebody", () => {
  it("is what it was, if it was not", () => {
    expect(decodeRecording(encodeRecording(recording))).toEqual(recording);
    expect(look(recording)).toContain("0");
  });

  it("is refused, or can be looked at", () => {
    const whole = JSON.parse(encodeRecording(recording)) as unknown;
    let refused = 0;
    let shown = 0;
    // There are many places of each sort: some of them, each with another thing in its place.
    const STEP = 5;
    const INSTEAD = [null, 7, "x", [], {}, [null], undefined];
    places(whole).forEach((way, i) => {
      if (i % STEP !== 0 && way.length > 3) return;
      for (const instead of way.length > 3 ? [INSTEAD[i % INSTEAD.length]] : INSTEAD) {
        const damaged = JSON.stringify(replace(whole, way, instead)) as string | undefined;
        let decoded: Recording;
        try {
          decoded = decodeRecording(damaged ?? "");
        } catch (error) {
          expect(error, way.join(".")).toBeInstanceOf(BadRecording);
          refused += 1;
          continue;
        }
        expect(() => look(decoded), `${way.join(".")} is ${JSON.stringify(instead)}`).not.toThrow();
        shown += 1;
      }
    });
    expect(refused).toBeGreaterThan(100);
    expect(shown).toBeGreaterThan(20);
  }, 20_000);
});

describe("events with times that are none", () => {
  it.each(['{"type":"split","at_ms":1e400}', '{"type":"split","at":"99999999999999999999999999"}'])(
    "%s is no event",
    (line) => {
      expect(() => parseEvent(line, "", 0)).toThrow(BadEvent);
    },
  );

  it("are left out of a file, and said", () => {
    const at = (1_795_821_157_000n << 16n).toString();
    const lines = [
      `{"type":"hello","version":1,"at":"${at}","node":"a"}`,
      `{"type":"node-started","at":"${at}","node":"a"}`,
      `{"type":"split","at_ms":1e400,"node":"a"}`,
      `{"type":"end","at":"${at}"}`,
    ];
    const { recording: read, notes } = decodeEvents(lines.join("\n"));
    expect(notes).toEqual(["1 line is no event and was left out; the first is line 3."]);
    expect(read.events).toHaveLength(1);
  });
});

describe("a sampled request", () => {
  it("has no route that cannot be drawn", () => {
    for (const steps of [[null], [{ shard: "x", node: "a" }], [5], "x"]) {
      const [found] = addSample(
        NO_SAMPLES,
        event("request", { key: "k", route: { ...route, steps } }),
      ).requests;
      expect(found?.route).toBeNull();
    }
    expect(samples.requests[0]?.route).toEqual(route);
  });
});

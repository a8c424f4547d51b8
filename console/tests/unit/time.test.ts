import { describe, expect, it } from "vitest";
import { linePath, nearest, niceMax } from "../../src/model/chart";
import { cellAt, COLUMNS_MAX, heatColumns, MARKS_MAX, shapeMarks } from "../../src/model/heatmap";
import { buckets, parseMetrics, quantile, sum } from "../../src/model/metrics";
import { BadRecording, decodeRecording, encodeRecording, RECORDING_FORMAT } from "../../src/model/recording";
import { spread } from "../../src/model/spread";
import type { NodeMetrics, ShardStatus } from "../../src/api/types";
import { hottest, loadOf } from "../../src/model/load";
import { shardsOf } from "../../src/model/model";
import { addSample, NO_SAMPLES } from "../../src/events/samples";
import {
  appendPoint,
  DETAILS_MAX,
  linksAt,
  nodeReadings,
  NODES_MAX,
  point,
  readMetrics,
  usesAt,
  type TimePoint,
} from "../../src/model/timeline";
import { pairs } from "../../src/views/cluster/links";
import { bytes } from "../../src/model/format";
import { spanOf, windowOf } from "../../src/views/timeline/span";
import { usesWords } from "../../src/views/cluster/uses";
import { answer, DOWN, event, modelOf, moment, SPLIT, WELL } from "./recording";

describe("metrics", () => {
  it("are read from the text of a real node", () => {
    const samples = parseMetrics(answer<string>(WELL, "/metrics"));
    expect(samples.length).toBeGreaterThan(200);
    expect(sum(samples, "carillon_health")).toBe(0);
    expect(sum(samples, "carillon_members", { state: "up" })).toBe(3);
    const fsync = buckets(samples, "carillon_fsync_seconds");
    const counts = [...fsync.values()];
    expect(counts).toEqual([...counts].sort((a, b) => a - b));
    expect([...fsync.keys()].at(-1)).toBe(Infinity);
  });

  it("have labels with escapes, and lines that are none", () => {
    const [sample, ...rest] = parseMetrics('# HELP x\nx{a="1,\\"}\\n",b="2"} 3\nnonsense\ny NaN\n\n');
    expect(sample).toEqual({ name: "x", labels: { a: '1,"}\n', b: "2" }, value: 3 });
    expect(rest).toEqual([]);
  });

  it("give quantiles of what came between", () => {
    const before = new Map([
      [1, 5],
      [2, 5],
      [Infinity, 5],
    ]);
    const now = new Map([
      [1, 5],
      [2, 15],
      [Infinity, 15],
    ]);
    expect(quantile(before, now, 0.5)).toBeCloseTo(1.5);
    expect(quantile(now, now, 0.5)).toBeNull();
    expect(
      quantile(
        new Map(),
        new Map([
          [1, 0],
          [Infinity, 4],
        ]),
        0.5,
      ),
    ).toBe(1);
  });
});

describe("the time line", () => {
  const reading = (name: string) => readMetrics(answer<string>(name, "/metrics"), moment(name).at_ms);

  it("has rates between two readings", () => {
    const found = point(reading(WELL), reading(SPLIT), modelOf(SPLIT));
    expect(found).not.toBeNull();
    expect(found?.http).toBeGreaterThan(0);
    expect(found?.nodesDown).toBe(0);
    expect(point(reading(SPLIT), reading(DOWN), modelOf(DOWN))?.nodesDown).toBe(1);
  });

  it("does not count a restart as less than nothing", () => {
    expect(
      point(
        reading(DOWN),
        { ...reading(WELL), atMs: reading(DOWN).atMs + 1000, commands: 0, uptimeKey: 0 },
        modelOf(WELL),
      ),
    ).toBeNull();
    expect(point(reading(WELL), reading(WELL), modelOf(WELL))).toBeNull();
  });

  const node = (
    id: string,
    atMs: number,
    commands: number,
    fsync: number[],
    uptimeMs = atMs,
  ): NodeMetrics => ({
    id,
    name: `node ${id}`,
    at_ms: atMs,
    uptime_ms: uptimeMs,
    numbers: { commands_total: commands, errors_total: 1 },
    histograms: {
      fsync_seconds: {
        buckets: fsync.map((count, i) => [i + 1, count]),
        sum: 1,
        count: fsync.at(-1) ?? 0,
      },
      request_seconds: { buckets: [[0.001, commands / 2]], sum: 1, count: commands },
    },
  });
  const twoReadings = (before: NodeMetrics[], now: NodeMetrics[]) =>
    point(
      { ...reading(WELL), nodes: nodeReadings({ nodes: before }) },
      { ...reading(SPLIT), nodes: nodeReadings({ nodes: now }) },
      modelOf(SPLIT),
    );

  it("has rates and quantiles of each node and of all", () => {
    const found = twoReadings(
      [node("a", 1000, 100, [0, 0]), node("b", 1000, 0, [5, 5])],
      [node("a", 3000, 300, [10, 10]), node("b", 5000, 40, [5, 15])],
    );
    expect(found?.nodes?.map(({ id, name, commands }) => [id, name, commands])).toEqual([
      ["a", "node a", 100],
      ["b", "node b", 10],
    ]);
    expect(found?.all?.commands).toBe(110);
    expect(found?.all?.errors).toBe(0);
    // Ten fsyncs took up to 1 s and ten up to 2 s.
    expect(found?.nodes?.map((each) => each.fsyncP99)).toEqual([0.99, 1.99]);
    expect(found?.all?.fsyncP50).toBeCloseTo(1);
    expect(found?.all?.fsyncP99).toBeCloseTo(1.98);
    expect(found?.all?.lookupP50).toBeNull();
    expect(found?.nodes?.map((each) => each.requestP50)).toEqual([0.001, 0.001]);
  });

  it("has what each node takes of its machine", () => {
    const with_ = (each: NodeMetrics, cpu: number) => ({
      ...each,
      numbers: {
        ...each.numbers,
        process_cpu_seconds_total: cpu,
        memory_used_bytes: 2048,
        log_disk_bytes: 4096,
      },
    });
    const found = twoReadings(
      [with_(node("a", 1000, 100, [0]), 7), node("b", 1000, 0, [5])],
      [with_(node("a", 3000, 300, [10]), 8), node("b", 5000, 40, [5])],
    );
    const uses = usesAt(found ?? undefined);
    const a = { processors: 0.5, memoryBytes: 2048, memoryMaxBytes: null, diskBytes: 4096 };
    expect(uses.get("a")).toEqual(a);
    expect(usesWords(uses.get("a"))).toBe(`50 % · ${bytes(2048)} · ${bytes(4096)}`);
    expect(usesWords(uses.get("b"))).toBe("");
    // Recordings of older consoles have them with the rates of each node.
    const [first] = found?.nodes ?? [];
    if (!found || !first) throw new Error("no rates");
    const { uses: told, ...older } = found;
    expect(Object.keys(told ?? {})).toEqual(["a", "b"]);
    expect(usesAt({ ...older, nodes: [{ ...first, uses: a }] }).get("a")).toEqual(a);
    expect(usesAt(undefined).size).toBe(0);
    expect(usesWords({ processors: 1.25, memoryBytes: 0, memoryMaxBytes: 1024, diskBytes: null })).toContain(
      "1.3 processors",
    );
  });

  it("leaves out nodes that were restarted, or did not answer", () => {
    const found = twoReadings(
      [node("a", 1000, 100, [0]), node("b", 1000, 500, [9]), node("c", 1000, 0, [])],
      [node("a", 2000, 101, [0]), node("b", 2000, 3, [1], 500)],
    );
    expect(found?.nodes?.map((each) => each.id)).toEqual(["a"]);
    expect(twoReadings([], [node("a", 2000, 1, [])])?.all).toBeUndefined();
    expect(point(reading(WELL), reading(SPLIT), modelOf(SPLIT))?.all).toBeUndefined();
  });

  it("keeps so many nodes one by one, and all together", () => {
    const many = (atMs: number, commands: number) =>
      Array.from({ length: NODES_MAX + 3 }, (_, i) => node(String(i), atMs, commands, []));
    const found = twoReadings(many(1000, 0), many(2000, 1));
    expect(found?.nodes).toHaveLength(NODES_MAX);
    expect(found?.all?.commands).toBe(NODES_MAX + 3);
    // The table of nodes has what each of them takes, however many they are.
    expect(usesAt(found ?? undefined).size).toBe(NODES_MAX + 3);
  });

  it("has the links of all nodes, each once, with what both ends say", () => {
    const linked = (each: NodeMetrics, to: string, bytes: number, connected = true): NodeMetrics => ({
      ...each,
      links: [{ to, connected, received_bytes: bytes, sent_bytes: bytes / 2, round_trip_seconds: 0 }],
    });
    const found = twoReadings(
      [linked(node("b", 1000, 0, []), "c", 100), linked(node("c", 1000, 0, []), "b", 0)],
      [linked(node("b", 3000, 0, []), "c", 300), linked(node("c", 3000, 0, []), "b", 0, false)],
    );
    const links = linksAt(found ?? undefined, "a");
    const others = links.filter((link) => link.from !== "a");
    expect(
      others.map(({ from, id, name, inBytes, outBytes }) => [from, id, name, inBytes, outBytes]),
    ).toEqual([
      ["b", "c", "node c", 100, 50],
      ["c", "b", "node b", 0, 0],
    ]);
    expect(pairs(others)).toEqual([
      { a: "b", b: "c", isConnected: true, onlyAt: "b", roundTripSeconds: null, there: 50, back: 100 },
    ]);
    // What the node that answers tells of its own links is newer.
    expect(linksAt(found ?? undefined, "b").some((link) => link.from === "b" && link.id === "c")).toBe(false);
    expect(linksAt(undefined, "b")).toEqual([]);
    const [one] = others;
    if (!one) throw new Error("no link");
    const lost = { ...one, id: "d", isConnected: false };
    expect(pairs([one, lost]).map((link) => link.b)).toEqual(["d", "c"]);
  });

  it("keeps what single nodes and links did of the newest points", () => {
    const one = point(reading(WELL), reading(SPLIT), modelOf(SPLIT));
    if (!one) throw new Error("no point");
    const use = { processors: 0, memoryBytes: 1, memoryMaxBytes: null, diskBytes: 2 };
    const half = DETAILS_MAX / 2;
    const large = {
      ...one,
      uses: Object.fromEntries(Array.from({ length: half }, (_, i) => [`n${i}`, use])),
    };
    let points: TimePoint[] = [];
    for (let i = 0; i < 4; i++) points = appendPoint(points, { ...large, atMs: i });
    expect(points.map((each) => usesAt(each).size)).toEqual([0, 0, half, half]);
    expect(points.map((each) => each.commands)).toEqual(points.map(() => one.commands));
  });

  it("drops the oldest point", () => {
    const one = point(reading(WELL), reading(SPLIT), modelOf(SPLIT));
    if (!one) throw new Error("no point");
    expect(appendPoint([one, one], one, 2)).toHaveLength(2);
  });
});

describe("writes by place and time", () => {
  const model = modelOf(WELL);
  const later = (ms: number, more: number) => ({
    ...model,
    atMs: ms,
    shards: model.shards.map((shard) => ({
      ...shard,
      committed: shard.committed + (shard.id === 1 ? more : 0),
    })),
  });

  it("are rates of the commit index", () => {
    const columns = heatColumns([later(0, 0), later(2000, 100), later(4000, 100)], "0", "equal");
    const rates = columns.map((column) => column.cells.find((cell) => cell.shard === 1)?.rate);
    expect(rates).toEqual([null, 50, 0]);
  });

  it("are unknown where a shard is new or its node was restarted", () => {
    const columns = heatColumns([later(0, 50), later(1000, 0)], "0", "equal");
    expect(columns[1]?.cells.find((cell) => cell.shard === 1)?.rate).toBeNull();
  });

  it("are unknown of shards without a replica on the node that answers", () => {
    const elsewhere = (ms: number) => {
      const moment = later(ms, ms);
      return { ...moment, shards: moment.shards.map((shard) => ({ ...shard, here: false })) };
    };
    const columns = heatColumns([elsewhere(0), elsewhere(1000)], "0", "equal");
    expect(columns[1]?.cells.every((cell) => cell.rate === null)).toBe(true);
  });

  it("join moments when there are many, and leave out those without news", () => {
    const many = Array.from({ length: 1000 }, (_, i) => later(i * 1000, i));
    expect(heatColumns(many, "0", "equal").length).toBeLessThanOrEqual(COLUMNS_MAX + 1);
    expect(heatColumns([model, { ...model, atMs: 5 }], "0", "equal")).toHaveLength(1);
  });
});

describe("splits and merges", () => {
  const cells = (...shards: number[]) =>
    shards.map((shard, i) => ({ shard, from: i / shards.length, to: (i + 1) / shards.length, rate: i }));
  const column = (atMs: number, ...shards: number[]) => ({ atMs, seconds: 1, cells: cells(...shards) });

  it("are marked where a shard comes or goes", () => {
    const marks = shapeMarks([column(0, 1), column(1000, 1, 2), column(2000, 1, 2), column(3000, 1)]);
    expect(marks).toEqual([
      { column: 1, atMs: 1000, what: "split", shard: 2, from: 0.5, to: 1 },
      { column: 3, atMs: 3000, what: "merge", shard: 2, from: 0.5, to: 1 },
    ]);
    // A keyspace that is new or was dropped has neither.
    expect(shapeMarks([column(0), column(1000, 1, 2), column(2000)])).toEqual([]);
    expect(shapeMarks([])).toEqual([]);
  });

  it("are those of a real split", () => {
    const [before, after] = [modelOf(WELL), modelOf(SPLIT)];
    const ids = (of: typeof before) => new Set(shardsOf(of, "0").map((shard) => shard.id));
    const came = [...ids(after)].filter((id) => !ids(before).has(id));
    const marks = shapeMarks(heatColumns([before, after], "0", "equal"));
    expect(marks.filter((mark) => mark.what === "split").map((mark) => mark.shard)).toEqual(came);
  });

  it("are bounded, the newest stay", () => {
    const many = Array.from({ length: MARKS_MAX + 5 }, (_, i) => column(i, 1, 2 + i));
    const marks = shapeMarks(many);
    expect(marks).toHaveLength(MARKS_MAX);
    expect(marks.at(-1)?.column).toBe(many.length - 1);
  });

  it("stand in a picture that can be read place by place", () => {
    const columns = [column(0, 1), column(1000, 1, 2)];
    expect(cellAt(columns, 1.9, 0.7)?.shard).toBe(2);
    expect(cellAt(columns, 0, 0.7)?.shard).toBe(1);
    expect(cellAt(columns, 2, 0.7)).toBeNull();
    expect(cellAt(columns, 0, 1)).toBeNull();
  });
});

describe("the time that charts show", () => {
  it("follows, and begins where the page began", () => {
    expect(windowOf(1_000_000, 60_000, 0)).toEqual({ fromMs: 940_000, toMs: 1_000_000 });
    expect(windowOf(1_000_000, 300_000, 970_000)).toEqual({ fromMs: 970_000, toMs: 1_000_000 });
    expect(windowOf(1_000_000, 300_000, 999_000)).toEqual({ fromMs: 980_000, toMs: 1_000_000 });
  });

  it("is a span that the address names, if it is one", () => {
    expect(spanOf("5", "9")).toEqual({ fromMs: 5, toMs: 9 });
    for (const [from, to] of [
      ["", "9"],
      ["5", ""],
      ["9", "5"],
      ["x", "9"],
      ["5", "Infinity"],
    ] as const)
      expect(spanOf(from, to)).toBeNull();
  });
});

describe("charts", () => {
  it("end at round numbers", () => {
    expect([0, 0.3, 1, 3, 17, 99, 101].map(niceMax)).toEqual([1, 0.5, 1, 5, 20, 100, 200]);
  });

  it("break where a value is missing", () => {
    const path = linePath(
      [0, 1, 2, 3],
      [1, null, 3, 4],
      (x) => x,
      (y) => y,
    );
    expect(path).toBe("M0.0 1.0M2.0 3.0L3.0 4.0");
  });

  it("find the nearest moment", () => {
    expect(nearest([0, 10, 20], 13)).toBe(1);
    expect(nearest([], 13)).toBe(-1);
  });

  it("tell how even values are as the balancer does", () => {
    expect(spread([1, 3])).toEqual({ mean: 2, max: 3, deviation: 0.5 });
    expect(spread([])).toEqual({ mean: 0, max: 0, deviation: 0 });
  });
});

describe("recordings", () => {
  const models = [WELL, SPLIT, DOWN].map((name) => modelOf(name));
  const samples = [
    event("request", { key: { base64: "/2E=" }, op: "read" }),
    event("transaction", { txn: "t", phase: "prepare", shards: [1, 2] }),
  ].reduce(addSample, NO_SAMPLES);
  const recording = {
    format: RECORDING_FORMAT,
    savedAtMs: 5,
    source: "page",
    models,
    events: [event("split")],
    points: [],
    samples,
  } as const;

  it("come back as they were", () => {
    expect(decodeRecording(encodeRecording(recording))).toEqual(recording);
  });

  it("write what moments share once", () => {
    const [first] = models;
    if (!first) throw new Error("no model");
    const many = Array.from({ length: 100 }, (_, i) => ({ ...first, atMs: i }));
    const one = encodeRecording({ ...recording, models: [first] }).length;
    expect(encodeRecording({ ...recording, models: many }).length).toBeLessThan(one + 100 * 400);
  });

  it("that were damaged anywhere are refused, or come back whole enough", () => {
    const text = encodeRecording({ ...recording, models: models.slice(0, 1) });
    const whole = JSON.parse(text) as Record<string, unknown>;
    for (const name of ["parts", "models", "events", "points", "samples"]) {
      for (const instead of [null, 5, "x", [null], [5], [{}], {}]) {
        const damaged = JSON.stringify({ ...whole, [name]: instead });
        let decoded;
        try {
          decoded = decodeRecording(damaged);
        } catch (error) {
          expect(error).toBeInstanceOf(BadRecording);
          continue;
        }
        // Only samples may be missing.
        expect(name).toBe("samples");
        expect(decoded.samples).toEqual(NO_SAMPLES);
      }
    }
  });

  it.each([
    ["", "no JSON"],
    ["{}", "no format"],
    ['{"format":99}', "format 99"],
    ['{"format":1}', "damaged"],
    ['{"format":1,"parts":[],"models":[],"events":[],"points":[]}', "empty"],
    ['{"format":1,"parts":[],"models":[{"nodes":{"part":7}}],"events":[],"points":[]}', "damaged"],
    ['{"format":1,"parts":[],"models":[5],"events":[],"points":[]}', "damaged"],
    ['{"format":1,"parts":[1],"models":[{"nodes":{"part":0}}],"events":[],"points":[]}', "damaged"],
  ])("that are none are refused: %s", (text, why) => {
    expect(() => decodeRecording(text)).toThrow(BadRecording);
    expect(() => decodeRecording(text)).toThrow(why);
  });
});

describe("the load of shards", () => {
  const busy = (reads: number, writes: number) => ({
    load: { reads_per_second: reads, writes_per_second: writes, written_bytes_per_second: 7 },
    told_by: "another node",
    here: false,
  });
  const shards = shardsOf(modelOf(WELL), "0");
  const [first, second, ...rest] = shards as [ShardStatus, ShardStatus, ...ShardStatus[]];

  it("says which is the hottest, and how much of all it has", () => {
    expect(loadOf(first)).toBeNull();
    expect(hottest(shards)).toBeNull();
    expect(hottest([{ ...first, ...busy(0, 0) }])).toBeNull();
    const found = hottest([{ ...first, ...busy(10, 0) }, { ...second, ...busy(0, 30) }, ...rest]);
    expect(found?.shard.id).toBe(second.id);
    expect(found?.share).toBe(0.75);
    expect(found?.load).toEqual({ reads: 0, writes: 30, requests: 30, bytes: 7 });
  });

  it("is drawn of shards of all nodes", () => {
    const model = { ...modelOf(WELL), shards: [{ ...first, ...busy(10, 4) }, second] };
    const cells = (heat: "requests" | "reads" | "writes" | "bytes") =>
      heatColumns([model], "0", "equal", heat)[0]?.cells.map((cell) => cell.rate);
    expect(cells("requests")).toEqual([14, null]);
    expect(cells("reads")).toEqual([10, null]);
    expect(cells("writes")).toEqual([4, null]);
    expect(cells("bytes")).toEqual([7, null]);
    const later = {
      ...model,
      atMs: model.atMs + 2000,
      shards: model.shards.map((shard) => ({ ...shard, committed: shard.committed + 6 })),
    };
    const untold = {
      ...later,
      shards: later.shards.map((shard) => ({ ...shard, here: false, told_by: null })),
    };
    expect(heatColumns([model, later], "0", "equal")[1]?.cells[0]?.rate).toBe(3);
    expect(heatColumns([model, untold], "0", "equal")[1]?.cells[0]?.rate).toBeNull();
  });
});

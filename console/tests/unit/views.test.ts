import { describe, expect, it } from "vitest";
import { Api } from "../../src/api/client";
import type { Decision, KeyChange, KeyHistory, Keyspace } from "../../src/api/types";
import { fromText, toText } from "../../src/model/bytes";
import { EMPTY, nodeName } from "../../src/model/model";
import { formatRoute, parseRoute } from "../../src/state/router.svelte";
import { DEFAULTS, readChoices } from "../../src/state/settings.svelte";
import { actionsFor, explain, refusalOf } from "../../src/views/cluster/actions";
import { kindOf, OUTCOMES, sentence } from "../../src/views/cluster/decisions";
import { browse, PAGE_KEYS, rangeOf } from "../../src/views/keys/browse";
import {
  asJson,
  bestShape,
  editable,
  hexDump,
  parseTtl,
  parseValue,
  render,
} from "../../src/views/keys/show";
import {
  fromVersions,
  PAGES_MAX,
  readHistory,
  stateAt,
  valueNow,
  withPage,
} from "../../src/views/keys/history";
import { before, listVersions, VERSIONS_MAX } from "../../src/views/keys/versions";
import {
  filterShards,
  isTroubled,
  lagOf,
  MERGE_BYTES,
  mergesAgain,
  placeOf,
  sortShards,
  troubleOf,
} from "../../src/views/shards/table";
import { factsOf, halvings, keyspaceToShow, STEPS } from "../../src/views/tour/steps";
import { answer, DOWN, modelOf, SPLIT, WELL } from "./recording";

describe("addresses of views", () => {
  it("go there and back", () => {
    expect(parseRoute(formatRoute("ring", { keyspace: "a b", key: "x/&=?#" }))).toEqual({
      view: "ring",
      params: { keyspace: "a b", key: "x/&=?#" },
    });
    expect(formatRoute("cluster", { key: "" })).toBe("#/cluster");
  });

  it("that nobody knows lead to the cluster", () => {
    for (const fragment of ["", "#", "#/nowhere", "#/constructor", "#?x=1"]) {
      expect(parseRoute(fragment).view).toBe("cluster");
      // What names no view is kept, so that the page can say so.
      const isNamed = fragment.replace(/^#\/?/, "").split("?")[0] !== "";
      expect(parseRoute(fragment).unknown !== undefined).toBe(isNamed);
    }
  });
});

describe("choices", () => {
  it("that make no sense become the default", () => {
    for (const text of [null, "", "{", "null", "[]", '{"theme":"pink","lines":99,"samples":"many"}']) {
      expect(readChoices(text)).toEqual(DEFAULTS);
    }
    expect(readChoices('{"theme":"light","lines":2}')).toMatchObject({ theme: "light", lines: 2 });
  });
});

describe("the cluster", () => {
  const node = { standing: "member", replicas: 3, leads: 1, name: "node-1" } as const;

  it("offers what a node's state allows", () => {
    expect(actionsFor(node)).toEqual(["cordon", "drain"]);
    expect(actionsFor({ standing: "draining", replicas: 0 })).toEqual(["uncordon", "cordon", "remove"]);
    expect(actionsFor({ standing: "member", replicas: 0 })).toEqual(["cordon", "drain", "remove"]);
    expect(actionsFor({ standing: "removed", replicas: 0 })).toEqual([]);
  });

  it("says beforehand why a node can be neither cordoned nor drained", () => {
    const model = modelOf(WELL);
    const [first, second, third] = model.nodes;
    if (!first || !second || !third) throw new Error("the recording has three nodes");
    const most = Math.max(...model.keyspaces.map((each) => each.replicas));
    expect(most).toBe(3);
    for (const action of ["cordon", "drain", "remove"] as const) {
      expect(refusalOf(action, second, model)).toContain("2 nodes are left that may take replicas");
    }
    expect(refusalOf("uncordon", second, model)).toBeNull();
    expect(refusalOf("remove", { ...second, standing: "draining" }, model)).toBeNull();
    const keyspaces = model.keyspaces.map((each) => ({ ...each, replicas: 2 }));
    expect(refusalOf("drain", second, { ...model, keyspaces })).toBeNull();
    const nodes = [first, second, { ...third, standing: "draining" as const }];
    expect(refusalOf("drain", second, { keyspaces, nodes })).toContain("1 node is left");
    // A node that is down reduces nothing by leaving.
    expect(refusalOf("drain", { ...second, state: "down" }, model)).toBeNull();
    const alone = { keyspaces: [], nodes: [first] };
    expect(refusalOf("drain", first, alone)).toContain("no node is left");
  });

  it("says before what can be undone", () => {
    for (const action of ["cordon", "drain"] as const) expect(explain(action, node)).toContain("“Uncordon”");
    expect(explain("remove", node)).toContain("cannot be undone");
  });

  it("tells decisions in words", () => {
    const all = [WELL, SPLIT, DOWN].flatMap(
      (name) => answer<{ decisions: Decision[] }>(name, "/v1/decisions").decisions,
    );
    expect(all.length).toBeGreaterThan(3);
    for (const decision of all) {
      expect(sentence(decision)).toContain(String(decision.shard));
      expect(OUTCOMES[decision.came]).toBeDefined();
    }
    const split = all.find((decision) => decision.split);
    expect(split && sentence(split)).toMatch(/^Shard \d+ splits at slot \d+; its right half is shard \d+$/);
    expect(split && kindOf(split)).toBe("split");
    const base = all[0];
    if (!base) throw new Error("no decision");
    const moved = {
      ...base,
      split: null,
      merge: null,
      leader: null,
      add: [{ id: "a", name: "n4" }],
      remove: [2],
    };
    expect(sentence(moved)).toBe(`Shard ${base.shard} gets a replica on n4 and loses replica 2`);
  });
});

describe("shards", () => {
  const model = modelOf(DOWN);

  it("are filtered", () => {
    const all = { keyspace: "*", show: "all", node: "" } as const;
    expect(filterShards(model.shards, all)).toHaveLength(model.shards.length);
    expect(filterShards(model.shards, { ...all, keyspace: "" }).map((shard) => shard.id)).toEqual([0]);
    expect(filterShards(model.shards, { ...all, show: "troubled" }).every(isTroubled)).toBe(true);
    expect(filterShards(model.shards, { ...all, node: "nobody" })).toEqual([]);
    expect(filterShards(modelOf(WELL).shards, { ...all, show: "troubled" })).toEqual([]);
  });

  it("say in a few words what is wrong with one", () => {
    const [shard] = modelOf(WELL).shards;
    if (!shard) throw new Error("the recording has shards");
    const sick = { ...shard, id: 4, leader: null, replicas_live: 1, replicas_wanted: 3, lagging: [2] };
    expect(troubleOf(sick)).toBe("shard 4 (no leader, 1 of 3 replicas, a replica lags)");
    expect(troubleOf({ ...shard, id: 5, verdict: "failing" })).toBe("shard 5 (failing)");
  });

  it("warn before a split that a merge will undo by itself", () => {
    const shard = { here: true, told_by: null, bytes: 1000 };
    expect(mergesAgain(shard)).toContain("merge_bytes");
    expect(mergesAgain({ ...shard, bytes: MERGE_BYTES })).toBe("");
    expect(mergesAgain({ ...shard, here: false })).toBe("");
    expect(mergesAgain({ ...shard, here: false, told_by: "ab" })).toContain("16 MiB");
  });

  it("are sorted by each column, both ways, and stay all", () => {
    for (const column of [
      "id",
      "keyspace",
      "place",
      "keys",
      "bytes",
      "leader",
      "generation",
      "lag",
    ] as const) {
      const up = sortShards(model.shards, column, false, (id) => nodeName(model, id));
      const down = sortShards(model.shards, column, true, (id) => nodeName(model, id));
      expect(new Set(up).size).toBe(model.shards.length);
      expect(new Set(down)).toEqual(new Set(up));
    }
    const keys = sortShards(model.shards, "keys", true, String).map((shard) => shard.keys);
    expect(keys).toEqual([...keys].sort((a, b) => b - a));
  });

  it("say what they own", () => {
    const places = model.shards.map(placeOf);
    expect(places).toContain("catalogue");
    expect(places).toContain("up to order/00030");
    expect(places).toContain("order/00030 – order/00060");
    expect(places.some((place) => /^slots \d+–\d+$/.test(place))).toBe(true);
    expect(places.every((place) => !place.includes("\\x"))).toBe(true);
  });

  it("tell the lag of the slowest replica", () => {
    const [shard] = model.shards;
    if (!shard) throw new Error("no shard");
    const replicas = shard.replicas.map((replica, i) => ({ ...replica, behind: [3, null, 9][i] ?? null }));
    expect(lagOf({ ...shard, replicas })).toBe(9);
    expect(
      lagOf({ ...shard, replicas: replicas.map((replica) => ({ ...replica, behind: null })) }),
    ).toBeNull();
  });
});

describe("values", () => {
  it("are shown as what they are", () => {
    expect(bestShape(fromText('{"a":1}'))).toBe("json");
    expect(bestShape(fromText("5"))).toBe("text");
    expect(bestShape(Uint8Array.of(255))).toBe("hex");
    expect(asJson(fromText('{"a":1}'))).toBe('{\n  "a": 1\n}');
    expect(render(Uint8Array.of(255), "text")).toBeNull();
  });

  it("are dumped in rows of sixteen", () => {
    const rows = hexDump(Uint8Array.from({ length: 20 }, (_, i) => i + 60)).split("\n");
    expect(rows).toHaveLength(2);
    expect(rows[0]).toContain("3c 3d 3e 3f");
    expect(rows[0]?.endsWith("<=>?@ABCDEFGHIJK")).toBe(true);
    expect(rows[1]?.startsWith("000010")).toBe(true);
  });

  it("are edited and read back", () => {
    for (const [text, shape] of [
      ["hello", "text"],
      ['{"a":[1,2]}', "json"],
      ["\u0000x", "hex"],
    ] as const) {
      const parsed = parseValue(editable(fromText(text), shape), shape);
      expect("bytes" in parsed && toText(parsed.bytes)).toBe(text);
    }
    expect(parseValue("{", "json")).toHaveProperty("wrong");
    expect(parseValue("0", "hex")).toHaveProperty("wrong");
  });

  it("live as long as people say", () => {
    expect(["30s", "5m", "2h", "1d", "250", "1.5s"].map(parseTtl)).toEqual([
      30_000, 300_000, 7_200_000, 86_400_000, 250, 1500,
    ]);
    for (const wrong of ["", "soon", "-1s", "0", "5 weeks"]) expect(parseTtl(wrong)).toBeNull();
  });
});

describe("browsing", () => {
  it("asks for keys with a prefix only", () => {
    expect(rangeOf(fromText("ab"), null)).toEqual({ range: { from: "ab", to: "ac", limit: PAGE_KEYS + 1 } });
    expect(rangeOf(fromText("ab"), fromText("abx"))).toEqual({
      range: { from: "abx", to: "ac", limit: PAGE_KEYS + 1 },
    });
    expect(rangeOf(new Uint8Array(), null)).toEqual({ range: { limit: PAGE_KEYS + 1 } });
  });

  it("knows where the next page begins", async () => {
    const page = (count: number) => {
      const keys = Array.from({ length: count }, (_, i) => ({ key: `k${i}`, value: "v", version: "1" }));
      return browse(
        new Api("", () =>
          Promise.resolve(new Response(JSON.stringify({ succeeded: true, results: [{ keys }] }))),
        ),
        "o",
        new Uint8Array(),
        null,
      );
    };
    const full = await page(PAGE_KEYS + 1);
    expect(full.entries).toHaveLength(PAGE_KEYS);
    expect(full.next instanceof Uint8Array ? toText(full.next) : null).toBe(`k${PAGE_KEYS}`);
    expect((await page(3)).next).toBeNull();
  });
});

describe("versions of a key", () => {
  const problem = (kind: string, status: number) =>
    new Response(
      JSON.stringify({
        type: `urn:carillon:problem:${kind}`,
        title: kind,
        status,
        detail: "",
        outcome: "not done",
      }),
      { status },
    );

  /** A key that was written at these times, the oldest first. */
  function node(times: bigint[], end: Response) {
    return new Api("", (url) => {
      const at = BigInt(new URL(url, "http://x").searchParams.get("at") ?? "0");
      const found = times.findLast((time) => time <= at);
      if (found === undefined) return Promise.resolve(end.clone());
      return Promise.resolve(
        new Response(`at ${found}`, { headers: { "carillon-timestamp": String(found) } }),
      );
    });
  }
  const newest = (version: string) => ({
    bytes: fromText("new"),
    version,
    expiresAtMs: null,
    etag: null,
    route: null,
  });

  it("are found by stepping back", async () => {
    const found = await listVersions(
      node([10n, 20n, 30n], problem("nil-yet", 404)),
      "0",
      fromText("k"),
      newest("30"),
    );
    expect(found.versions.map((each) => each.version)).toEqual(["30", "20", "10"]);
    expect(found.end).toBe("first");
    expect(before("30")).toBe("29");
  });

  it.each([
    ["nil", "deleted"],
    ["below-safe-point", "collected"],
  ])("end at %s", async (kind, end) => {
    const found = await listVersions(node([10n], problem(kind, 404)), "0", fromText("k"), newest("10"));
    expect(found.end).toBe(end);
  });

  it("have a bound", async () => {
    const times = Array.from({ length: 100 }, (_, i) => BigInt(i + 1));
    const found = await listVersions(node(times, problem("nil-yet", 404)), "0", fromText("k"), newest("100"));
    expect(found.versions).toHaveLength(VERSIONS_MAX);
    expect(found.end).toBe("limit");
  });

  it("of a key that cannot be read are an error", async () => {
    await expect(
      listVersions(node([], problem("busy", 503)), "0", fromText("k"), newest("10")),
    ).rejects.toThrow("busy");
  });

  it("end if a node answers the same again", async () => {
    const stuck = new Api("", () =>
      Promise.resolve(new Response("", { headers: { "carillon-timestamp": "10" } })),
    );
    expect((await listVersions(stuck, "0", fromText("k"), newest("10"))).versions).toHaveLength(1);
  });
});

describe("the history of a key", () => {
  const page = (changes: KeyChange[], next: string | null = null, safePointMs = 0): KeyHistory => ({
    changes,
    next,
    safe_point: "0",
    safe_point_ms: safePointMs,
  });
  const put = (at: number, value: string, expires?: number): KeyChange => ({
    what: "put",
    at_ms: at,
    version: String(at),
    bytes: value.length,
    value,
    ...(expires === undefined ? {} : { expires_at_ms: expires }),
  });
  const deleted = (at: number): KeyChange => ({ what: "deleted", at_ms: at, version: String(at) });
  const all = withPage(
    null,
    page([
      put(60, "last", 90),
      { what: "expired", at_ms: 50 },
      put(40, "short", 50),
      deleted(30),
      put(20, "old"),
    ]),
  );

  it("tells what it had at a moment", () => {
    const had = (atMs: number) => {
      const then = stateAt(all, atMs);
      const change = "index" in then ? all.changes[then.index] : undefined;
      return then.kind === "value" ? toText(change?.bytes ?? new Uint8Array()) : (change?.what ?? then.kind);
    };
    expect([70, 60, 55, 45, 35, 25, 10].map(had)).toEqual([
      "last",
      "last",
      "expired",
      "short",
      "deleted",
      "old",
      "nothing-yet",
    ]);
  });

  it("lets a value end that ended after it was read", () => {
    expect(stateAt(all, 90)).toEqual({ kind: "none", index: 0 });
    expect(valueNow(all, 89)).toMatchObject({ version: "60", etag: '"60"', expiresAtMs: 90 });
    expect(valueNow(all, 90)).toBeNull();
    expect(valueNow(withPage(null, page([deleted(30), put(20, "old")])), 99)).toBeNull();
    expect(valueNow(withPage(null, page([])), 99)).toBeNull();
  });

  it("says of what nothing is known", () => {
    expect(stateAt(withPage(null, page([put(60, "x")], "60")), 10).kind).toBe("not-read");
    const collected = withPage(null, page([put(60, "x"), put(20, "kept")], null, 40));
    expect(stateAt(collected, 30)).toEqual({ kind: "value", index: 1 });
    expect(stateAt(collected, 10).kind).toBe("forgotten");
    expect(collected.end).toContain("What was before is forgotten");
    expect(all.end).toBe("It had no value before.");
    expect(withPage(null, page([put(60, "x")], null, 40)).end).toContain("It had no value before, since");
    expect(withPage(null, page([put(60, "x")], "60")).end).toBe("");
  });

  it("of an older node ends at a deletion", () => {
    const value = (version: string) => ({
      bytes: fromText("v"),
      version,
      expiresAtMs: null,
      etag: null,
      route: null,
    });
    const versions = [value(String(60n << 16n)), value(String(20n << 16n))];
    const told = fromVersions({ versions, end: "deleted" });
    expect(stateAt(told, 30)).toEqual({ kind: "value", index: 1 });
    expect(stateAt(told, 10).kind).toBe("forgotten");
    expect(stateAt(fromVersions({ versions, end: "first" }), 10).kind).toBe("nothing-yet");
  });

  it("is read page by page, back to a moment, with a bound", async () => {
    const asked: string[] = [];
    const endless = new Api("", (url) => {
      asked.push(url);
      const before = Number(/before=(\d+)/.exec(url)?.[1] ?? 1001);
      return Promise.resolve(Response.json(page([put(before - 1, "v")], String(before - 1))));
    });
    const found = await readHistory(endless, "0", fromText("a/b"), { untilMs: 998 });
    expect(found.changes.map((change) => change.atMs)).toEqual([1000, 999, 998]);
    expect(asked.slice(0, 2)).toEqual([
      "/v1/history/0/a%2Fb?limit=100",
      "/v1/history/0/a%2Fb?limit=100&before=1000",
    ]);
    expect((await readHistory(endless, "0", fromText("k"))).changes).toHaveLength(1);
    const bound = await readHistory(endless, "0", fromText("k"), { untilMs: 0 });
    expect(bound.changes).toHaveLength(PAGES_MAX);
    const more = await readHistory(endless, "0", fromText("k"), { list: bound });
    expect(more.changes).toHaveLength(PAGES_MAX + 1);
  });
});

describe("recorded keyspaces", () => {
  it("are of each placement", () => {
    const { keyspaces } = answer<{ keyspaces: Keyspace[] }>(WELL, "/v1/keyspaces");
    expect(new Set(keyspaces.map((each) => each.placement)).size).toBe(3);
  });
});

describe("the tour", () => {
  it("tells of the cluster that is looked at", () => {
    const model = modelOf(WELL);
    const keyspace = keyspaceToShow(model);
    expect(keyspace).toBe("0");
    const facts = factsOf(model, keyspace);
    expect(facts).toMatchObject({ nodes: 3, shards: 8, replicas: 3, here: "node-1" });
    const words = STEPS.flatMap((step) => step.text(facts)).join(" ");
    expect(words).toContain("cut into 8 arcs");
    expect(words).toContain("at most about 3 hops");
    expect(words).not.toMatch(/undefined|NaN|null/);
  });

  it("stands before a cluster is known", () => {
    const facts = factsOf(EMPTY, keyspaceToShow(EMPTY));
    for (const step of STEPS) expect(step.text(facts).join(" ")).not.toMatch(/undefined|NaN|null/);
  });

  it("counts how often a ring can be halved", () => {
    expect([0, 1, 2, 8, 9, 1000, 1_000_000].map(halvings)).toEqual([0, 0, 1, 3, 4, 10, 20]);
  });
});

import { describe, expect, it } from "vitest";
import { Api } from "../../src/api/client";
import { asProblem, isMissingPath, Problem, readProblem } from "../../src/api/problem";
import { fromText, toText } from "../../src/model/bytes";
import { fetchFrom, WELL } from "./recording";

/** A fetch that keeps requests and gives one answer. */
function recorder(answer: () => Response) {
  const requests: { url: string; init: RequestInit }[] = [];
  const fetcher = (url: string, init: RequestInit) => {
    requests.push({ url, init });
    return Promise.resolve(answer());
  };
  return { requests, api: new Api("", fetcher) };
}

const json = (body: unknown) => () => new Response(JSON.stringify(body));

async function failure(promise: Promise<unknown>): Promise<Problem> {
  const error: unknown = await promise.then(
    () => new Error("it did not fail"),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Problem);
  return error as Problem;
}

describe("what is asked of all nodes", () => {
  it("is asked so only where the node knows that", async () => {
    const { requests, api } = recorder(json({ shards: [], decisions: [], nodes: [], next: null }));
    await api.shards();
    await api.decisions(true);
    await api.shards(undefined, "cluster");
    await api.decisions(false, undefined, "cluster");
    await api.decisions(true, undefined, "cluster");
    await api.metricsOfAll(false);
    await api.metricsOfAll(true);
    expect(requests.map(({ url }) => url)).toEqual([
      "/v1/shards",
      "/v1/decisions?dry=true",
      "/v1/shards?scope=cluster",
      "/v1/decisions?scope=cluster",
      "/v1/decisions?dry=true&scope=cluster",
      "/v1/metrics?scope=cluster",
      "/v1/metrics?scope=cluster&links=true",
    ]);
  });
});

describe("the keys . and ..", () => {
  it("stand in the query, since browsers take them out of paths", async () => {
    const { requests, api } = recorder(json({}));
    await api.get("0", fromText("."));
    await api.get("0", fromText(".."), "5ms");
    await api.put("0", fromText("."), fromText("x"), { ttlMs: 5 });
    await api.delete("0", fromText(".."));
    await api.history("0", fromText("."), { limit: 3 });
    await api.route("0", fromText("."));
    await api.get("0", fromText("..."));
    expect(requests.map(({ url }) => url)).toEqual([
      "/v1/kv/0/?key=.",
      "/v1/kv/0/?key=..&at=5ms",
      "/v1/kv/0/?key=.&ttl_ms=5",
      "/v1/kv/0/?key=..",
      "/v1/history/0/?key=.&limit=3",
      "/v1/route/0/?key=.",
      "/v1/kv/0/...",
    ]);
    expect(requests.every(({ url }) => new URL(url, "http://a").pathname === url.split("?")[0])).toBe(true);
  });
});

describe("the client", () => {
  const api = new Api("", fetchFrom(WELL));

  it("reads what a real cluster answers", async () => {
    expect((await api.status()).name).toBe("node-1");
    expect((await api.nodes()).nodes).toHaveLength(3);
    expect((await api.keyspaces()).map((each) => each.placement).sort()).toEqual([
      "hashed",
      "linear-hash",
      "ordered",
    ]);
    const shards = await api.shards();
    expect(shards.isWhole).toBe(true);
    expect(shards.shards.length).toBeGreaterThan(10);
    expect((await api.decisions(false)).balances).toBe(true);
  });

  it("reads a value with its version", async () => {
    const value = await api.get("0", fromText("greeting"));
    expect(toText(value.bytes)).toBe("hello");
    expect(value.version).toMatch(/^\d{18}$/);
    expect(value.etag).toBe(`"${value.version}"`);
    expect(value.expiresAtMs).toBeNull();
  });

  it("throws the problem that a node answers", async () => {
    const problem = await failure(api.get("nowhere", fromText("k")));
    expect(problem.kind).toBe("no-keyspace");
    expect(problem.status).toBe(404);
    expect(problem.outcome).toBe("not done");
    expect(problem.remedy).not.toBe("");
    expect((await failure(api.get("0", fromText("nothing-here")))).kind).toBe("nil");
    expect((await failure(api.get("0", fromText("greeting"), "5ms"))).kind).toBe("nil-yet");
  });

  it("names lookup, form and images of a route", async () => {
    const { requests, api: asked } = recorder(json([]));
    await asked.route("0", fromText("a/b"));
    await asked.route("0", fromText("k"), { lookup: "chord", form: "recursive", images: false });
    await asked.route("0", fromText("k"), { images: true });
    expect(requests.map(({ url }) => url)).toEqual([
      "/v1/route/0/a%2Fb",
      "/v1/route/0/k?lookup=chord+recursive+noimages",
      "/v1/route/0/k",
    ]);
  });

  it("reads all pages of shards, and says if there are more than it reads", async () => {
    let pages = 0;
    const endless = () => {
      pages += 1;
      return new Response(JSON.stringify({ node: "", health: {}, shards: [{ id: pages }], next: pages }));
    };
    const { requests, api: asked } = recorder(endless);
    const found = await asked.shards();
    expect(found.isWhole).toBe(false);
    expect(found.shards).toHaveLength(20);
    expect(requests[1]?.url).toBe("/v1/shards?after=1");
  });

  it("puts with a time to live and a condition", async () => {
    const { requests, api: asked } = recorder(() => new Response(null, { status: 204 }));
    await asked.put("0", fromText("k"), fromText("v"), { ttlMs: 5, ifMatch: '"1"' });
    await asked.put("0", fromText("k"), fromText("v"), { ifAbsent: true });
    expect(requests[0]?.url).toBe("/v1/kv/0/k?ttl_ms=5");
    expect(requests[0]?.init.headers).toEqual({ "If-Match": '"1"' });
    expect(requests[1]?.url).toBe("/v1/kv/0/k?if=absent");
  });

  it("sends JSON for what changes something", async () => {
    const { requests, api: asked } = recorder(json({}));
    await asked.nodeAction("0a", "drain");
    await asked.split(3, "k");
    await asked.split(3);
    expect(requests.map(({ init }) => init.body)).toEqual(["{}", '{"at":"k"}', "{}"]);
    expect(requests[0]?.init.headers).toEqual({ "Content-Type": "application/json" });
    expect(requests[0]?.url).toBe("/v1/nodes/0a/drain");
  });

  it("says of a write without an answer that its outcome is unknown", async () => {
    const broken = new Api("", () => Promise.reject(new TypeError("Failed to fetch")));
    const write = await failure(broken.put("0", fromText("k"), fromText("v")));
    expect(write.outcome).toBe("unknown");
    expect(write.isUnreachable).toBe(true);
    expect((await failure(broken.nodes())).outcome).toBe("not done");
  });

  it("does not take an answer that is no JSON for one", async () => {
    const { api: asked } = recorder(() => new Response("<html>"));
    expect((await failure(asked.nodes())).detail).toBe("<html>");
  });
});

describe("problems", () => {
  it("reads any body", () => {
    for (const body of ["", "null", "[]", "<html>", '{"title":5}']) {
      const problem = readProblem(502, "Bad Gateway", body);
      expect(problem.title).toBe("Bad Gateway");
      expect(problem.kind).toBe("http-502");
    }
  });

  it("knows an older node by its missing path", () => {
    const missing = readProblem(404, "", JSON.stringify({ type: "urn:carillon:problem:unknown-path" }));
    expect(isMissingPath(missing)).toBe(true);
    expect(isMissingPath(readProblem(404, "", ""))).toBe(false);
  });

  it("shows any error as one", () => {
    expect(asProblem(new Error("x")).detail).toBe("x");
    expect(asProblem("y").detail).toBe("y");
  });
});

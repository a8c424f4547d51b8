// Serves dist as a node will: with the policy that forbids inline and foreign parts. Requests of the
// API go to a real node (`CARILLON_HTTP`), or are answered from the recording (`--recorded`).
// npm run preview [-- --recorded]
import { existsSync, readFileSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

/** The policy that the console works under. `blob:` is for pictures that are exported as PNG. */
export const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const root = fileURLToPath(new URL("../", import.meta.url));
/** @type {Record<string, string>} */
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** `body`: text, what becomes JSON, or what gives one of these each time.
 * @typedef {{ status: number, type: string, headers?: Record<string, string>, body: unknown }} Answer */
/** Answers a request: method, address, body. */
/** @typedef {(method: string, url: URL, body: any) => { status: number, body: unknown }} Handler */
/** @typedef {{ name: string, at_ms: number, answers: Record<string, Answer> }} Moment */

/** What the recording has: moments of a cluster, the first of which is shown first. */
export function readRecording() {
  /** @type {{ moments: Moment[] }} */
  const { moments } = JSON.parse(readFileSync(join(root, "tests/data/three-nodes.json"), "utf8"));
  return moments;
}

/** @param {import("node:http").ServerResponse} response */
function file(/** @type {string} */ path, response) {
  const found = join(root, "dist", normalize(path === "/" ? "/index.html" : path));
  if (!found.startsWith(join(root, "dist")) || !existsSync(found)) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, {
    "Content-Type": `${TYPES[extname(found)] ?? "application/octet-stream"}; charset=utf-8`,
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
  });
  response.end(readFileSync(found));
}

/** Passes a request on to a node.
 * @param {import("node:http").IncomingMessage} request
 * @param {import("node:http").ServerResponse} response */
function pass(/** @type {string} */ node, request, response) {
  const { hostname, port, host } = new URL(node);
  // What a node refuses from another origin, the server of this page answers for.
  const headers = { ...request.headers, host };
  delete headers.origin;
  const onward = httpRequest(
    { hostname, port, method: request.method, path: request.url, headers },
    (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    },
  );
  onward.on("error", () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
  response.on("close", () => onward.destroy());
  request.pipe(onward);
}

/** Keys of the recorded keyspaces, as `fill` in cluster.mjs has written them.
 * @returns {Answer | undefined} */
function listedKeys(/** @type {string} */ path) {
  const { pathname, searchParams } = new URL(path, "http://127.0.0.1");
  /** @type {Record<string, string[]>} */
  const all = {
    0: ["greeting", ...Array.from({ length: 200 }, (_, i) => `user:${i + 1}`)],
    orders: Array.from({ length: 120 }, (_, i) => `order/${String(i + 1).padStart(5, "0")}`),
    catalog: Array.from({ length: 120 }, (_, i) => `bell-${i + 1}`),
  };
  const keys = pathname.startsWith("/v1/keys/") ? all[pathname.slice("/v1/keys/".length)] : undefined;
  if (!keys) return undefined;
  const prefix = searchParams.get("prefix") ?? "";
  const found = keys.filter((key) => key.startsWith(prefix));
  const [at, limit] = [Number(searchParams.get("cursor") ?? 0), Number(searchParams.get("limit") ?? 100)];
  const next = at + limit < found.length ? String(at + limit) : null;
  return { status: 200, type: "application/json", body: { keys: found.slice(at, at + limit), next } };
}

/** Answers by a stand-in.
 * @param {Handler} handler
 * @param {import("node:http").IncomingMessage} request
 * @param {import("node:http").ServerResponse} response */
async function handle(handler, request, response) {
  let text = "";
  for await (const chunk of request) text += chunk;
  const url = new URL(request.url ?? "/", "http://127.0.0.1");
  const answer = handler(request.method ?? "GET", url, text === "" ? null : JSON.parse(text));
  response.writeHead(answer.status, {
    "Content-Type": answer.status < 400 ? "application/json" : "application/problem+json",
  });
  response.end(JSON.stringify(answer.body));
}

/** An answer that is a problem. */
const problem = (/** @type {string} */ kind, /** @type {number} */ status, /** @type {string} */ detail) => ({
  status,
  type: "application/problem+json",
  body: {
    type: `urn:carillon:problem:${kind}`,
    title: kind,
    status,
    detail,
    outcome: "not done",
    remedy: "This is a recording.",
  },
});

/**
 * Serves until `close` is called.
 * @param {{ node?: string, moments?: Moment[], port?: number, sim?: Handler, dev?: Handler }} options
 */
export async function serve({ node, moments, port = 0, sim, dev }) {
  let moment = moments?.[0];
  let isDown = false;
  let hasStream = true;
  let streams = 0;
  /** @type {{ id: string, text: string }[]} */
  const backlog = [];
  /** @type {Set<import("node:http").ServerResponse>} */
  const viewers = new Set();

  /** @param {import("node:http").ServerResponse} response */
  function recorded(/** @type {string} */ path, /** @type {string} */ method, response, cursor = "") {
    if (path.startsWith("/v1/events") && hasStream) {
      streams += 1;
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      const last = backlog.findLastIndex(({ id }) => id !== "" && id === cursor);
      response.write(": keep-alive\n\n");
      for (const { text } of backlog.slice(last + 1)) response.write(text);
      viewers.add(response);
      response.on("close", () => viewers.delete(response));
      return;
    }
    let answer = /** @type {Answer} */ (
      (method === "GET" ? (moment?.answers[path] ?? listedKeys(path)) : undefined) ??
        problem("unknown-path", 404, `${method} ${path} was not recorded`)
    );
    if (path === "/v1/status" && typeof answer.body === "object") {
      const surfaces = [...(sim ? ["sim"] : []), ...(dev ? ["dev"] : [])];
      answer = { ...answer, body: { ...answer.body, surfaces } };
    }
    const told = typeof answer.body === "function" ? answer.body() : answer.body;
    const body = typeof told === "string" ? told : JSON.stringify(told);
    response.writeHead(answer.status, { "Content-Type": answer.type, ...answer.headers });
    response.end(body);
  }

  /** An event as the stream has it; those that come later get it as well. */
  function frame(/** @type {Record<string, unknown>} */ event) {
    const at = String(event["at"] ?? BigInt(Date.now()) << 16n);
    const json = JSON.stringify({ at, at_ms: Number(BigInt(at) >> 16n), severity: "info", ...event });
    const hasCursor = !["hello", "gap", "request", "transaction"].includes(String(event["type"]));
    const id = hasCursor ? `${at}@${event["node"]}` : "";
    const text = `${hasCursor ? `id: ${id}\n` : ""}data: ${json}\n\n`;
    backlog.push({ id, text });
    return text;
  }

  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    const isApi = path.startsWith("/v1/") || path.startsWith("/metrics");
    if (!isApi) file(path.split("?")[0] ?? "/", response);
    else if (isDown) request.socket.destroy();
    else if (sim && path.startsWith("/v1/sim")) void handle(sim, request, response);
    else if (dev && path.startsWith("/v1/dev")) void handle(dev, request, response);
    else if (node) pass(node, request, response);
    else {
      const from = new URL(path, "http://127.0.0.1").searchParams.get("from") ?? "";
      recorded(path, request.method ?? "GET", response, String(request.headers["last-event-id"] ?? from));
    }
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", () => done(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${address.port}/`,
    /** Goes on to another moment of the recording. */
    show(/** @type {string} */ name) {
      moment = moments?.find((each) => each.name === name);
      if (!moment) throw new Error(`the recording has no moment "${name}"`);
    },
    /** Sends events to all that watch, and to those that come later. */
    emitAll(/** @type {Record<string, unknown>[]} */ events) {
      const texts = events.map(frame);
      for (const viewer of viewers) viewer.write(texts.join(""));
    },
    emit(/** @type {Record<string, unknown>} */ event) {
      const text = frame(event);
      for (const viewer of viewers) viewer.write(text);
    },
    /** How many streams were begun. */
    streams: () => streams,
    /** Breaks all streams, as a network does. */
    cut() {
      for (const viewer of viewers) viewer.destroy();
    },
    setDown(/** @type {boolean} */ to) {
      isDown = to;
      if (to) for (const viewer of viewers) viewer.destroy();
    },
    setStream(/** @type {boolean} */ to) {
      hasStream = to;
      if (!to) for (const viewer of viewers) viewer.destroy();
    },
    close: () =>
      new Promise((done) => {
        server.close(done);
        server.closeAllConnections();
      }),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const options = process.argv.includes("--recorded")
    ? { moments: readRecording() }
    : { node: process.env["CARILLON_HTTP"] ?? "http://127.0.0.1:7480" };
  const { url } = await serve({ ...options, port: Number(process.env["PORT"] ?? 7488) });
  console.log(url);
}

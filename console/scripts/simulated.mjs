// A stand-in for `/v1/sim` and `/v1/dev`: enough for pages to be checked without their servers. Its ring
// is correct at every moment, and its cluster is the recorded one, whose nodes it calls up or down.

const POSITIONS = 16n;

/** A position that looks random and is the same each time. */
function positionOf(/** @type {number} */ number) {
  const scattered = (BigInt(number + 1) * 0x9e3779b97f4a7c15n) & ((1n << 64n) - 1n);
  return scattered.toString(16).padStart(Number(POSITIONS), "0");
}

/** @typedef {{ name: string, id: string, state: string, start: string, domain: string, skew_ms: number, slow_disk_ms: number, cut_to: string[] }} SimNode */

const LIMITS = {
  nodes_max: 50,
  members_max: 1000,
  clients_max: 32,
  speed_min: 0.1,
  speed_max: 100,
  step_ms_max: 60_000,
  actions_max: 10_000,
  time_ms_max: 3_600_000,
  file_bytes_max: 4_194_304,
};
const NAMES = {
  scenarios: [
    { name: "domain-lost", kind: "cluster", about: "all nodes of a failure domain lose their power" },
    { name: "hundred-joins", kind: "overlay", about: "a hundred members join at once" },
  ],
  plants: [{ name: "stale-lease", about: "a leader trusts its lease after a pause" }],
  lookups: ["full", "linear", "chord", "chord-sharp", "lh"],
  actions: { cluster: ["add-nodes", "crash"], overlay: ["add-nodes", "crash"] },
  limits: LIMITS,
};

/** The state of a problem's answer. */
const problem = (/** @type {string} */ kind, /** @type {number} */ status, /** @type {string} */ detail) => ({
  status,
  body: {
    type: `urn:carillon:problem:${kind}`,
    title: kind,
    status,
    detail,
    outcome: "not done",
    remedy: "",
  },
});

/**
 * @param {{ kind?: string, nodes?: number, names?: { name: string, id: string }[] }} options
 */
export function simulation(options = {}) {
  let now = 0;
  let began = Date.now();
  /** @type {any} */
  let begin = { kind: options.kind ?? "cluster", seed: 7, clients: 4, scenario: null, plants: [] };
  let running = true;
  let speed = 1;
  /** @type {SimNode[]} */
  let nodes = [];
  /** @type {any[]} */
  let actions = [];
  const calm = { one_in: 0, altered: 0, altered_refused: 0, forged: 0, forged_refused: 0 };
  let tampering = calm;

  const make = (/** @type {number} */ number) => ({
    name: options.names?.[number]?.name ?? `n${number + 1}`,
    id: options.names?.[number]?.id ?? (number + 1).toString(16).padStart(16, "0"),
    state: "up",
    start: positionOf(number),
    domain: "",
    skew_ms: 0,
    slow_disk_ms: 0,
    cut_to: /** @type {string[]} */ ([]),
  });
  const fill = (/** @type {number} */ count) => {
    nodes = Array.from({ length: count }, (_, i) => make(i));
  };
  fill(options.nodes ?? options.names?.length ?? 3);

  const tick = () => {
    const then = began;
    began = Date.now();
    if (running) now += (began - then) * speed;
  };
  const state = () => {
    tick();
    return {
      version: 1,
      ...begin,
      now_ms: Math.round(now),
      wall_ms: 1_800_000_000_000 + Math.round(now),
      running,
      speed,
      behind: false,
      phase: "running",
      answered: Math.round(now / 10),
      refused: 0,
      unknown: 0,
      broken: null,
      tampering: begin.kind === "cluster" ? tampering : null,
      checked_ms: null,
      nodes,
      actions: actions.length,
      to_come: 0,
      next_action: null,
      digest: "5c0ffee5c0ffee00",
    };
  };

  /** Up members in the order of the circle. */
  const ring = () => nodes.filter((node) => node.state === "up").sort((a, b) => (a.start < b.start ? -1 : 1));
  const successor = (/** @type {SimNode[]} */ members, /** @type {number} */ i, ahead = 1) =>
    /** @type {SimNode} */ (members[(i + ahead) % members.length]);

  /** Chord counts members here, so that its hops are the digits of the way. */
  function route(/** @type {string} */ lookup, /** @type {number} */ from, /** @type {number} */ to) {
    const members = ring();
    const way = (to - from + members.length) % members.length;
    const steps = [];
    let at = from;
    for (let left = way; left > 0;) {
      const jump = ["linear"].includes(lookup)
        ? 1
        : ["full", "lh"].includes(lookup)
          ? left
          : 2 ** Math.floor(Math.log2(left));
      at += jump;
      left -= jump;
      const member = successor(members, at, 0);
      const by = jump === 1 ? "successor 0" : `finger ${Math.log2(jump)}`;
      steps.push({ shard: 0, node: member.id, name: member.name, by, micros: 500 });
    }
    const hops = steps.length;
    const form = "iterative";
    return {
      lookup,
      form,
      images: false,
      shard: 0,
      leader: null,
      hops,
      messages: 2 * hops,
      micros: 500 * hops,
      steps,
    };
  }

  function act(/** @type {any} */ action) {
    const node = nodes.find((each) => each.name === action.node);
    if (action.node !== undefined && !node) {
      return problem("no-simulated-node", 404, `there is no node ${action.node}`);
    }
    /** @type {Record<string, string>} */
    const states = {
      crash: "down",
      "power-cut": "down",
      pause: "paused",
      restart: "up",
      resume: "up",
      "remove-node": "gone",
    };
    const next = states[action.do];
    if (node && next) {
      if (node.state === next)
        return problem(
          "sim-refused",
          409,
          `${node.name} is ${node.state === "down" ? "down" : "so"} already`,
        );
      node.state = next;
    }
    if (node && action.do === "slow-disk") node.slow_disk_ms = action.sync_ms;
    if (node && action.do === "skew") node.skew_ms = action.by_ms;
    if (action.do === "cut") nodes.find((each) => each.name === action.from)?.cut_to.push(action.to);
    if (action.do === "clients") begin.clients = action.count;
    if (action.do === "tamper") {
      // As many as a moment of it would have.
      const more = action.one_in > 0 ? 3 : 0;
      tampering = {
        one_in: action.one_in,
        altered: tampering.altered + more,
        altered_refused: tampering.altered_refused + more,
        forged: tampering.forged + more,
        forged_refused: tampering.forged_refused + more,
      };
    }
    if (action.do === "heal") {
      tampering = { ...tampering, one_in: 0 };
      for (const each of nodes) {
        if (each.state !== "gone") each.state = "up";
        each.cut_to = [];
        each.slow_disk_ms = 0;
      }
    }
    if (action.do === "add-nodes") {
      const most = begin.kind === "overlay" ? LIMITS.members_max : LIMITS.nodes_max;
      if (nodes.length + action.count > most) return problem("sim-refused", 409, `there are ${most} at most`);
      for (let i = 0; i < action.count; i++) nodes.push(make(nodes.length));
    }
    tick();
    const done = { ms: Math.round(now), ...action };
    actions.push(done);
    return { status: 200, body: done };
  }

  /** Answers a request below `/v1/sim`. */
  return (/** @type {string} */ method, /** @type {URL} */ url, /** @type {any} */ body) => {
    const path = url.pathname.slice("/v1/sim".length);
    const ok = (/** @type {unknown} */ answer) => ({ status: 200, body: answer });
    if (path === "" && method === "GET") return ok(state());
    if (path === "" && method === "PATCH") {
      tick();
      running = body.running ?? running;
      speed = body.speed ?? speed;
      return ok(state());
    }
    if (path === "/step") {
      running = false;
      tick();
      now += body.ms;
      return ok(state());
    }
    if (path === "/reset") {
      begin = { ...begin, ...body };
      const scenario = NAMES.scenarios.find((each) => each.name === body.scenario);
      if (scenario) begin.kind = scenario.kind;
      now = 0;
      actions = [];
      tampering = calm;
      fill(body.nodes ?? (begin.kind === "overlay" ? 32 : (options.names?.length ?? 3)));
      return ok(state());
    }
    if (path === "/act") return act(body);
    if (path === "/check") return ok({ ...state(), checked_ms: Math.round(now) });
    if (path === "/names") return ok(NAMES);
    if (path === "/file" && method === "GET") {
      return ok({ carillon_simulation: 1, ...begin, nodes: nodes.length, actions, ends_ms: Math.round(now) });
    }
    if (path === "/file") {
      begin = { ...begin, kind: body.kind ?? "cluster", seed: body.seed ?? 1 };
      now = 0;
      running = false;
      actions = [];
      fill(body.nodes ?? 3);
      return ok(state());
    }
    if (path.startsWith("/members/")) {
      const members = ring();
      const i = members.findIndex((node) => node.name === decodeURIComponent(path.slice("/members/".length)));
      if (i < 0) return problem("no-simulated-node", 404, "there is no such member");
      const fingers = [];
      for (let ahead = 1, k = 0; ahead < members.length; ahead *= 2, k++) {
        fingers.push({ entry: `finger ${k}`, member: successor(members, i, ahead).name });
      }
      const { name, id, start } = successor(members, i, 0);
      const successors = [1, 2, 3, 4].map((ahead) => successor(members, i, ahead).name);
      return ok({
        name,
        id,
        start,
        successors,
        tables: { chord: fingers, "chord-sharp": fingers, linear: [] },
      });
    }
    if (path.startsWith("/lookup/")) {
      const members = ring();
      const from = Math.max(
        0,
        members.findIndex((node) => node.name === url.searchParams.get("from")),
      );
      const key = path.split("/").at(-1) ?? "";
      const to = [...key].reduce((sum, char) => sum * 31 + char.charCodeAt(0), 7) % members.length;
      return ok(NAMES.lookups.map((lookup) => route(lookup, from, to)));
    }
    return problem("unknown-path", 404, `nothing is at ${path}`);
  };
}

/** A stand-in for `/v1/dev` with the recorded nodes. */
export function devCluster(/** @type {{ name: string, addresses: any }[]} */ known) {
  const nodes = known.map((node, i) => ({
    name: node.name,
    state: "running",
    pid: /** @type {number | null} */ (4711 + i),
    this: i === 0,
    since_at_ms: Date.now(),
    addresses: node.addresses,
    dir: `/tmp/carillon-dev/${node.name}`,
    log: `/tmp/carillon-dev/${node.name}.log`,
    parameters: {},
    command: "carillon start",
    ended: /** @type {unknown} */ (null),
  }));
  /** @type {Record<string, [string, string[]]>} */
  const actions = {
    start: ["running", ["ended"]],
    stop: ["ended", ["starting", "running", "paused", "stopping"]],
    kill: ["ended", ["starting", "running", "paused", "stopping"]],
    pause: ["paused", ["starting", "running"]],
    resume: ["running", ["paused"]],
  };
  const parameters = [
    { name: "memory_max", accepts: "a size", default: "1 GiB", help: "memory for keys and values" },
    { name: "domain", accepts: "a name", default: "", help: "the failure domain" },
  ];
  return (/** @type {string} */ method, /** @type {URL} */ url, /** @type {any} */ body) => {
    if (method === "GET") {
      return {
        status: 200,
        body: { dir: "/tmp/carillon-dev", nodes_max: 4, flags: [], parameters, nodes },
      };
    }
    const [name, action] = url.pathname.slice("/v1/dev/nodes".length).split("/").slice(1);
    if (name === undefined) {
      if (nodes.length >= 4) return problem("too-many-nodes", 409, "4 nodes there are");
      const number = nodes.length + 1;
      const made = {
        ...nodes[0],
        name: `node-${number}`,
        this: false,
        parameters: body.parameters ?? {},
        state: "starting",
      };
      nodes.push(/** @type {any} */ (made));
      return { status: 201, body: made };
    }
    const node = nodes.find((each) => each.name === name);
    const known = actions[action ?? ""];
    if (!node) return problem("no-node", 404, `no node ${name}`);
    if (!known) return problem("unknown-path", 404, `no action ${action}`);
    if (!known[1].includes(node.state)) return problem("wrong-state", 409, `${name} is ${node.state}`);
    node.state = known[0];
    node.pid = node.state === "ended" ? null : 4800;
    node.ended =
      node.state === "ended"
        ? {
            how: action === "kill" ? "by SIGKILL (9)" : "with exit code 0",
            asked: true,
            log: ["the last line"],
          }
        : null;
    return { status: 202, body: node };
  };
}

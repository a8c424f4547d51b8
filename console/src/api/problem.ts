/** Errors as the API says them: `application/problem+json` (RFC 9457). */

export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  /** `not done`: nothing was changed. `unknown`: it may have been done, or may yet be. */
  outcome: string;
  remedy: string;
  request_id?: string;
}

const PREFIX = "urn:carillon:problem:";
/** So much of an answer that is no problem is shown. */
const EXCERPT_CHARS_MAX = 200;

/** What a request failed with. Its fields are those of the problem that the node answered. */
export class Problem extends Error {
  readonly status: number;
  /** The last part of its type: `no-keyspace`. */
  readonly kind: string;
  readonly title: string;
  readonly detail: string;
  readonly outcome: string;
  readonly remedy: string;

  constructor(body: ProblemBody) {
    super(`${body.title}: ${body.detail}`);
    this.name = "Problem";
    this.status = body.status;
    this.kind = body.type.startsWith(PREFIX) ? body.type.slice(PREFIX.length) : body.type;
    this.title = body.title;
    this.detail = body.detail;
    this.outcome = body.outcome;
    this.remedy = body.remedy;
  }

  /** Whether the node could not be reached or did not answer in time. */
  get isUnreachable(): boolean {
    const isGateway = this.status === 502 || this.status === 504;
    return this.kind === "unreachable" || (this.kind === "timeout" && this.status === 0) || isGateway;
  }
}

/** A request that got no answer. What a write has done is unknown then. */
export function unreachable(isWrite: boolean, isTimeout: boolean, cause: string): Problem {
  return new Problem({
    type: PREFIX + (isTimeout ? "timeout" : "unreachable"),
    title: isTimeout ? "No answer in time" : "The node cannot be reached",
    status: 0,
    detail: cause,
    outcome: isWrite ? "unknown" : "not done",
    remedy: isWrite
      ? "Read first, then decide whether to send it again."
      : "The console goes on trying; see whether the node runs.",
  });
}

/** A node that does not have a path, as of an older version. */
export function isMissingPath(error: unknown): boolean {
  return error instanceof Problem && (error.kind === "unknown-path" || error.kind === "unknown-method");
}

function text(value: unknown, otherwise: string): string {
  return typeof value === "string" && value !== "" ? value : otherwise;
}

/** Reads the body of an answer that is no success; never throws. */
export function readProblem(status: number, statusText: string, body: string): Problem {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    parsed = null;
  }
  const fields = typeof parsed === "object" && parsed !== null ? (parsed as Record<string, unknown>) : {};
  return new Problem({
    type: text(fields["type"], `http-${status}`),
    title: text(fields["title"], statusText || `HTTP status ${status}`),
    status,
    detail: text(fields["detail"], body.slice(0, EXCERPT_CHARS_MAX) || "the answer has no text"),
    outcome: text(fields["outcome"], "unknown"),
    remedy: text(fields["remedy"], ""),
  });
}

const PLAIN: Readonly<Record<string, { title: string; detail: string }>> = {
  "condition-failed": {
    title: "Somebody changed it meanwhile",
    detail: "Nothing was changed. Press “Read again”, look at what it has now, and change that.",
  },
};

/**
 * What a refusal means to somebody who looks at a page, where the node's words are for programs; `null`: the
 * node's words will do.
 */
export function plainly(problem: Problem): { title: string; detail: string } | null {
  const known = PLAIN[problem.kind];
  if (known) return known;
  if (problem.status !== 400) return null;
  const number = /(?:integer|floating point) `([^`]+)`, expected/.exec(problem.detail)?.[1];
  if (number !== undefined) {
    return {
      title: "This number cannot be taken",
      detail: `${number} is too large, below zero, or no whole number. Nothing was changed.`,
    };
  }
  const range = /\b([a-z]+(?:_[a-z]+)+) is (-?\d+)(?:: it is at most (\d+))?/.exec(problem.detail);
  if (range) {
    const name = NUMBERS[range[1] ?? ""] ?? "A number";
    return {
      title: "This number cannot be taken",
      detail: `${name} is ${range[2]}. ${range[3] === undefined ? "That is" : `At most ${range[3]} is allowed: that is`} too much. Nothing was changed.`,
    };
  }
  return null;
}

/** Numbers of requests as the page calls them. */
const NUMBERS: Readonly<Record<string, string>> = {
  by_ms: "What the clock is wrong by, in milliseconds,",
  sync_ms: "How long fsync takes, in milliseconds,",
  for_ms: "How long it stands still, in milliseconds,",
  ttl_ms: "The time to live, in milliseconds,",
  retention_ms: "How long old versions are kept, in milliseconds,",
};

/** What is wrong with a file that somebody opened, in one line. */
export class BadFile extends Error {}

/** Any thrown value as a problem, so that views show one kind of error only. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof BadFile) {
    const title = "This file cannot be opened";
    return new Problem({ type: "file", title, status: 0, detail: error.message, outcome: "", remedy: "" });
  }
  return new Problem({
    type: "console",
    title: "The console failed",
    status: 0,
    detail: error instanceof Error ? error.message : String(error),
    outcome: "unknown",
    remedy: "Reload the page. If it happens again, report it with what you did.",
  });
}

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
    return this.kind === "unreachable" || this.kind === "timeout";
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

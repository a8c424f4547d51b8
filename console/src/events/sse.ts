/**
 * Server-sent events, read from a stream of text (the HTML standard's section 9.2). The browser's
 * `EventSource` is not used: it hides the status and the problem of a refused request, and it
 * retries as it likes.
 */

export interface Frame {
  /** `event:`, or `message`. */
  event: string;
  data: string;
  /** The last `id:`; it stays until the next one. */
  id: string;
}

/** A frame that grows above this is an error: the stream is not ours. */
export const FRAME_CHARS_MAX = 1 << 20;

export class FrameTooLong extends Error {}

/** Takes text in pieces, however they are cut, and gives back whole frames. */
export class FrameParser {
  #buffer = "";
  #event = "";
  #data: string[] = [];
  #chars = 0;
  #id = "";
  #isFirst = true;
  /** What the server asks for with `retry:`. */
  retryMs: number | null = null;

  push(text: string): Frame[] {
    if (this.#isFirst && text !== "") {
      text = text.replace(/^\uFEFF/, "");
      this.#isFirst = false;
    }
    this.#buffer += text;
    const frames: Frame[] = [];
    for (;;) {
      const end = this.#buffer.search(/\r\n|\n|\r/);
      // A carriage return at the very end may be half of a line break.
      if (end < 0 || (this.#buffer[end] === "\r" && end === this.#buffer.length - 1)) break;
      const width = this.#buffer.startsWith("\r\n", end) ? 2 : 1;
      const line = this.#buffer.slice(0, end);
      this.#buffer = this.#buffer.slice(end + width);
      const frame = this.#line(line);
      if (frame) frames.push(frame);
    }
    if (this.#buffer.length + this.#chars > FRAME_CHARS_MAX) {
      throw new FrameTooLong(`a frame of the event stream is longer than ${FRAME_CHARS_MAX} characters`);
    }
    return frames;
  }

  #line(line: string): Frame | null {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return null; // a comment keeps the connection alive
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "data") {
      this.#data.push(value);
      this.#chars += value.length;
    } else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
    return null;
  }

  #dispatch(): Frame | null {
    const [event, data] = [this.#event || "message", this.#data];
    this.#event = "";
    this.#data = [];
    this.#chars = 0;
    return data.length === 0 ? null : { event, data: data.join("\n"), id: this.#id };
  }
}

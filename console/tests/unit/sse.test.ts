import { describe, expect, it } from "vitest";
import { BadEvent, parseEvent } from "../../src/events/parse";
import { FRAME_CHARS_MAX, FrameParser, FrameTooLong } from "../../src/events/sse";

describe("frames", () => {
  it("are read however the text is cut", () => {
    const text = ': hi\r\n\r\nid: 7@a\ndata: {"a":\ndata: 1}\n\nevent: x\rdata: y\r\rdata:z\n\n';
    const whole = new FrameParser().push(text);
    expect(whole).toEqual([
      { event: "message", data: '{"a":\n1}', id: "7@a" },
      { event: "x", data: "y", id: "7@a" },
      { event: "message", data: "z", id: "7@a" },
    ]);
    for (let size = 1; size < 9; size++) {
      const parser = new FrameParser();
      const frames = [];
      for (let at = 0; at < text.length; at += size) frames.push(...parser.push(text.slice(at, at + size)));
      expect(frames).toEqual(whole);
    }
  });

  it("without data are none", () => {
    expect(new FrameParser().push("event: x\n\n\n\n: comment\n\n")).toEqual([]);
  });

  it("tell how long to wait", () => {
    const parser = new FrameParser();
    parser.push("retry: 250\nretry: soon\n\n");
    expect(parser.retryMs).toBe(250);
  });

  it("have a bound", () => {
    expect(() => new FrameParser().push("data: " + "x".repeat(FRAME_CHARS_MAX + 10))).toThrow(FrameTooLong);
    const parser = new FrameParser();
    expect(() => {
      for (let i = 0; i < 20; i++) parser.push(`data: ${"x".repeat(FRAME_CHARS_MAX / 10)}\n`);
    }).toThrow(FrameTooLong);
  });
});

describe("events", () => {
  it("are read as the documents have them", () => {
    const text =
      '{"type":"split","node":"8f6d2a3f4d1c5b0a","at":"117690934362308609","at_ms":1795821157261,"severity":"debug",' +
      '"shard":7,"keyspace":"0","right":12,"text":"shard 7 was split: its right half is shard 12"}';
    const event = parseEvent(text, "117690934362308609@8f6d2a3f4d1c5b0a", 5);
    expect(event).toMatchObject({
      type: "split",
      cursor: "117690934362308609@8f6d2a3f4d1c5b0a",
      shard: 7,
      keyspace: "0",
      atMs: 1795821157261,
      severity: "debug",
      isLate: false,
    });
    expect(event.fields["right"]).toBe(12);
  });

  it("of a later version are kept with what they have", () => {
    const event = parseEvent('{"type":"new-thing","severity":"fatal","shard":"x","more":{}}', "", 5);
    expect(event).toMatchObject({ type: "new-thing", severity: "info", shard: null, atMs: 5, text: "" });
    expect(event.at).toBe(String(5n << 16n));
  });

  it("take their time from the hybrid clock if there is no other", () => {
    expect(parseEvent(`{"type":"x","at":"${1234n << 16n}"}`, "", 5).atMs).toBe(1234);
  });

  it("that are none are errors", () => {
    for (const text of ["", "{", "[]", "5", "null", '{"node":"a"}', '{"type":""}']) {
      expect(() => parseEvent(text, "", 0)).toThrow(BadEvent);
    }
  });
});

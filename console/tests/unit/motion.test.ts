import { describe, expect, it } from "vitest";
import { at, isStill, SpringSet, step } from "../../src/model/spring";
import { FIT, pan, SCALE_MAX, SCALE_MIN, viewBox, zoomAt } from "../../src/model/zoom";

describe("springs", () => {
  it("arrive without overshooting, however long a frame takes", () => {
    for (const frame of [0.001, 0.016, 0.05, 0.5]) {
      let spring = { ...at(0), target: 1 };
      let most = 0;
      for (let time = 0; time < 2; time += frame) {
        spring = step(spring, frame);
        most = Math.max(most, spring.value);
      }
      expect(most).toBeLessThanOrEqual(1.0001);
      expect(spring.value).toBeCloseTo(1, 3);
      expect(isStill(spring)).toBe(true);
    }
  });

  it("turn to a new target in motion without a jump", () => {
    let spring = { ...at(0), target: 1 };
    for (let i = 0; i < 5; i++) spring = step(spring, 0.016);
    const turned = step({ ...spring, target: -1 }, 0.001);
    expect(Math.abs(turned.value - spring.value)).toBeLessThan(0.02);
  });

  it("are born where they are told, and go when they are gone", () => {
    const set = new SpringSet();
    set.aim(new Map([["a", [0, 1]]]));
    expect(set.advance(0.016)).toBe(false);
    set.aim(
      new Map([
        ["a", [0, 0.5]],
        ["b", [0.5, 1]],
      ]),
      () => [1, 1],
    );
    expect(set.values().get("b")).toEqual([1, 1]);
    expect(set.values().get("a")).toEqual([0, 1]);
    expect(set.advance(0.016)).toBe(true);
    set.settle();
    expect(set.values().get("b")).toEqual([0.5, 1]);
    set.aim(new Map([["b", [0, 1]]]));
    expect([...set.values().keys()]).toEqual(["b"]);
  });

  it("rest at their targets exactly", () => {
    const set = new SpringSet();
    set.aim(new Map([["a", [0]]]));
    set.aim(new Map([["a", [1]]]));
    let frames = 0;
    while (set.advance(0.016)) if (++frames > 500) throw new Error("it never rests");
    expect(set.values().get("a")).toEqual([1]);
  });
});

describe("zoom", () => {
  it("keeps the place under the pointer", () => {
    const place = { x: 100, y: -50 };
    const view = zoomAt(FIT, 2, place);
    const seen = (v: typeof view) => ({ x: (place.x - v.x) * v.scale, y: (place.y - v.y) * v.scale });
    expect(seen(view).x).toBeCloseTo(seen(FIT).x);
    expect(seen(view).y).toBeCloseTo(seen(FIT).y);
  });

  it("has bounds", () => {
    expect(zoomAt(FIT, 1e9, FIT).scale).toBe(SCALE_MAX);
    expect(zoomAt(FIT, 1e-9, FIT).scale).toBe(SCALE_MIN);
    expect(pan(FIT, 1e9, -1e9)).toEqual({ x: 520, y: -520, scale: 1 });
  });

  it("shows the whole picture at first", () => {
    expect(viewBox(FIT, 1000)).toBe("-500.00 -500.00 1000.00 1000.00");
  });
});

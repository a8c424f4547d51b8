/** Pan and zoom of a picture by wheel, drag, touch and keys. */

import { FIT, pan, viewBox, zoomAt, type View } from "../../model/zoom";

const STEP = 1.25;

export class Zoomable {
  view = $state.raw<View>(FIT);
  isDragging = $state(false);
  #svg: SVGSVGElement | undefined;
  #size: number;
  #pointers = new Map<number, { x: number; y: number }>();
  #moved = 0;

  constructor(size: number) {
    this.#size = size;
  }

  get viewBox(): string {
    return viewBox(this.view, this.#size);
  }

  /** Whether the pointer was moved so far that its release is no click. */
  get wasDragged(): boolean {
    return this.#moved > 6;
  }

  fit = () => (this.view = FIT);
  zoom = (factor: number) => (this.view = zoomAt(this.view, factor, this.view));

  /** For `{@attach}`. A wheel's listener must be able to keep the page where it is. */
  attach = (svg: SVGSVGElement) => {
    this.#svg = svg;
    const wheel = (event: WheelEvent) => {
      // Without a key the page scrolls, until the picture is zoomed: it must not be a trap.
      if (!event.ctrlKey && !event.metaKey && this.view === FIT && event.deltaY > 0) return;
      event.preventDefault();
      this.view = zoomAt(this.view, Math.exp(-event.deltaY * 0.0016), this.place(event));
    };
    svg.addEventListener("wheel", wheel, { passive: false });
    return () => svg.removeEventListener("wheel", wheel);
  };

  down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    this.#pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.#moved = 0;
  };

  move = (event: PointerEvent) => {
    const last = this.#pointers.get(event.pointerId);
    if (!last || !this.#svg) return;
    const unit = this.unit();
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    this.#moved += Math.abs(dx) + Math.abs(dy);
    if (this.#pointers.size === 2) {
      const [other] = [...this.#pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      if (other) {
        const before = Math.hypot(last.x - other.x, last.y - other.y);
        const now = Math.hypot(event.clientX - other.x, event.clientY - other.y);
        const middle = { clientX: (event.clientX + other.x) / 2, clientY: (event.clientY + other.y) / 2 };
        if (before > 0) this.view = zoomAt(this.view, now / before, this.place(middle));
      }
    } else if (this.wasDragged) {
      this.isDragging = true;
      this.#svg.setPointerCapture(event.pointerId);
      this.view = pan(this.view, -dx * unit, -dy * unit);
    }
    this.#pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };

  up = (event: PointerEvent) => {
    this.#pointers.delete(event.pointerId);
    this.isDragging = false;
  };

  key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = this.#size / this.view.scale / 12;
    const actions: Record<string, () => View> = {
      "+": () => this.zoom(STEP),
      "=": () => this.zoom(STEP),
      "-": () => this.zoom(1 / STEP),
      "0": () => this.fit(),
    };
    // Arrow keys belong to shards while one of them has the focus.
    if (event.target === this.#svg) {
      actions["ArrowLeft"] = () => (this.view = pan(this.view, -step, 0));
      actions["ArrowRight"] = () => (this.view = pan(this.view, step, 0));
      actions["ArrowUp"] = () => (this.view = pan(this.view, 0, -step));
      actions["ArrowDown"] = () => (this.view = pan(this.view, 0, step));
    }
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  };

  /** Units of the picture per pixel. */
  unit(): number {
    const box = this.#svg?.getBoundingClientRect();
    return box ? this.#size / this.view.scale / Math.max(1, Math.min(box.width, box.height)) : 1;
  }

  /** Where in the picture a pointer is. */
  place(event: { clientX: number; clientY: number }): { x: number; y: number } {
    const box = this.#svg?.getBoundingClientRect();
    if (!box) return { x: 0, y: 0 };
    const unit = this.unit();
    return {
      x: this.view.x + (event.clientX - box.left - box.width / 2) * unit,
      y: this.view.y + (event.clientY - box.top - box.height / 2) * unit,
    };
  }
}

/** Pan and zoom: what part of a picture is seen. Pure. */

export interface View {
  /** The place of the picture that is in the middle. */
  x: number;
  y: number;
  scale: number;
}

export const FIT: View = { x: 0, y: 0, scale: 1 };
export const SCALE_MIN = 0.5;
export const SCALE_MAX = 24;

/** Zooms by a factor and keeps one place of the picture where it is. */
export function zoomAt(view: View, factor: number, place: { x: number; y: number }): View {
  const scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, view.scale * factor));
  const kept = view.scale / scale;
  return bound({ x: place.x + (view.x - place.x) * kept, y: place.y + (view.y - place.y) * kept, scale });
}

/** Moves by a distance in the picture. */
export function pan(view: View, dx: number, dy: number): View {
  return bound({ ...view, x: view.x + dx, y: view.y + dy });
}

/** The picture, which is 1000 wide, never leaves the sight. */
function bound(view: View): View {
  const limit = 520;
  const clamp = (value: number) => Math.min(limit, Math.max(-limit, value));
  return { x: clamp(view.x), y: clamp(view.y), scale: view.scale };
}

/** The `viewBox` of a picture of a size. */
export function viewBox(view: View, size: number): string {
  const side = size / view.scale;
  return [view.x - side / 2, view.y - side / 2, side, side].map((each) => each.toFixed(2)).join(" ");
}

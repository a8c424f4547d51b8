/** What views show of a recording. Pure. */

import type { ViewName } from "../state/router.svelte";

/** What these views show they ask the cluster for: nothing of it is in a recording. */
const ASKING: Partial<Record<ViewName, string>> = {
  keys: "Keys and their values are not recorded: this view asks the cluster for them.",
  simulator: "This view steers a simulation that runs; a recording is what was.",
  tour: "The tour asks the cluster, or plays a simulation; a recording is what was.",
};

export function isRecorded(view: ViewName): boolean {
  return ASKING[view] === undefined;
}

/** Why a view shows nothing of a recording. */
export function whyNot(view: ViewName): string {
  return ASKING[view] ?? "";
}

/** The cluster in figures, as far as recorded events tell it. Pure. */

import { count } from "../../model/format";
import type { Model } from "../../model/model";

/** What stands for a figure that a recording does not have. */
export const NOT_RECORDED = "not recorded";

export interface RecordedFigure {
  name: string;
  value: string;
  of: string;
  verdict: string;
}

export function recordedFigures(model: Model): RecordedFigure[] {
  const up = model.nodes.filter((node) => node.state === "up").length;
  const down = model.nodes.filter((node) => node.state === "down" || node.state === "suspected").length;
  const led = model.shards.filter((shard) => shard.leader !== null).length;
  return [
    {
      name: "Nodes known to be up",
      value: count(up),
      of: `of ${count(model.nodes.length)} told of so far`,
      verdict: down > 0 ? "degraded" : "ok",
    },
    {
      name: "Shards named",
      value: count(model.shards.length),
      of: `leaders told of ${count(led)}`,
      verdict: "ok",
    },
    { name: "Health, data, requests", value: "–", of: NOT_RECORDED, verdict: "ok" },
  ];
}

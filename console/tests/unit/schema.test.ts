import { describe, expectTypeOf, it } from "vitest";
import type { components } from "../../src/api/schema";
import type * as hand from "../../src/api/types";

type Schemas = components["schemas"];

// `npm run check` judges these: what the document says is what the console takes it for.
describe("the types of the API", () => {
  it("take what nodes answer", () => {
    expectTypeOf<Schemas["Health"]>().toExtend<hand.Health>();
    expectTypeOf<Required<Schemas["Status"]>>().toExtend<hand.Status>();
    expectTypeOf<Schemas["ClusterVersionStatus"]>().toExtend<hand.ClusterVersion>();
    expectTypeOf<Schemas["Nodes"]>().toExtend<hand.Nodes>();
    expectTypeOf<Schemas["NodeAdminState"]>().toExtend<hand.NodeAdminState>();
    expectTypeOf<Schemas["Shards"]>().toExtend<hand.Shards>();
    expectTypeOf<Schemas["Survivability"]>().toExtend<hand.Survivability>();
    expectTypeOf<Schemas["History"]>().toExtend<hand.KeyHistory>();
    expectTypeOf<Schemas["NodeMetrics"]>().toExtend<hand.Metrics>();
    expectTypeOf<Schemas["KeyspaceInfo"]>().toExtend<hand.Keyspace>();
    expectTypeOf<Schemas["Decisions"]>().toExtend<hand.Decisions>();
    expectTypeOf<Schemas["RouteStatus"]>().toExtend<Omit<hand.Route, "lookup" | "form">>();
    expectTypeOf<Schemas["Text"]>().toExtend<hand.JsonBytes>();
    expectTypeOf<Schemas["TxnDone"]>().toExtend<hand.TxnAnswer>();
  });

  it("are what nodes take", () => {
    expectTypeOf<hand.NewKeyspace>().toExtend<Schemas["KeyspaceSpec"]>();
    expectTypeOf<hand.TxnRequest>().toExtend<Schemas["TxnBody"]>();
  });
});

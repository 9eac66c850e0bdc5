/** Types that a program relies on; `tsc` is the test. */
import { expectTypeOf, test } from "vitest";
import { type Client, type components, pages, unwrap } from "../src/index.js";

type Schemas = components["schemas"];

test("answers, pages and watches have the types of the contract", () => {
  // never called: only its types matter
  const program = async (client: Client) => {
    const allocation = await unwrap(client.GET("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id: "a" } } }));
    expectTypeOf(allocation).toEqualTypeOf<Schemas["allocation.Allocation"]>();
    for await (const item of pages((page_token) => client.GET("/api/v1/skus", { params: { query: { page_token } } }), (page) => page.skus)) {
      expectTypeOf(item).toEqualTypeOf<Schemas["scheduler.Sku"]>();
    }
    for await (const message of client.watch("/api/v1/admin/nodes:watch", {})) {
      expectTypeOf(message).toEqualTypeOf<Schemas["inventory.WatchNodesResponse"]>();
    }
    client.follow("/api/v1/admin/nodes:watch", {}, {
      anew: () => undefined,
      messages: (batch) => expectTypeOf(batch).toEqualTypeOf<Schemas["inventory.WatchNodesResponse"][]>(),
      status: () => undefined,
    });
    for await (const { part } of client.watch("/api/v1/allocations/{allocation_id}/serial-log", { path: { allocation_id: "a" }, query: { follow: true } })) {
      expectTypeOf(part).toEqualTypeOf<Schemas["allocation.SerialLogPart"] | undefined>();
    }
    // @ts-expect-error: a list has no such items
    pages((page_token) => client.GET("/api/v1/skus", { params: { query: { page_token } } }), (page) => page.nodes);
    // @ts-expect-error: a path parameter is missing
    client.watch("/api/v1/allocations/{allocation_id}:watch", {});
    // @ts-expect-error: this cannot be watched
    client.watch("/api/v1/skus", {});
  };
  expectTypeOf(program).toBeFunction();
});

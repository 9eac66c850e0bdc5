import { afterEach, expect, it, vi } from "vitest";
import { client } from "../../api/client";
import { ANYWHERE, placementOf } from "./request";
import { type Order, judgedOf, send } from "./use-launch";

afterEach(() => vi.restoreAllMocks());

function order(names: string[]): Order {
  const { placement, labels } = placementOf({ ...ANYWHERE, prewarmed: true }, "web");
  return { project_id: "p", names, each: { region_code: "a", sku: "s", gpu_count: 1, image: "i", ssh_public_keys: ["k"], labels, placement }, waitHours: undefined };
}

it("con_10_only_where_the_image_is_cached_is_asked_of_a_check_a_launch_and_a_batch_alike", async () => {
  const asked = vi.spyOn(client, "POST").mockImplementation((async () => ({ data: {}, response: new Response() })) as never);
  const bodies = async (names: string[], how: Parameters<typeof send>[1]) => {
    await send(order(names), how, "key");
    const [path, init] = asked.mock.lastCall as unknown as [string, { params: { header: object }; body: { allocations?: object[]; validate_only?: boolean } }];
    expect(init.params.header).toEqual({ "X-Idempotency-Key": "key" });
    expect(init.body).toMatchObject(how);
    return [path, ...(init.body.allocations ?? [init.body])];
  };
  const one = expect.objectContaining({ placement: { require_prewarmed: true } });
  for (const how of [{ validate_only: true }, { validate_only: true, wait: { deadline: "2026-01-31T12:00:00Z" } }, {}, { wait: { deadline: "2026-01-31T12:00:00Z" } }]) {
    expect(await bodies(["web"], how)).toEqual(["/api/v1/allocations", one]);
    expect(await bodies(["web-1", "web-2"], how)).toEqual(["/api/v1/allocations:batchCreate", one, one]);
  }
});

it("a judgement tells where one fits with all that was chosen, and of several only that they do", () => {
  const placement = (nodes_fit: number) => ({ nodes: 2, nodes_fit });
  expect(judgedOf(order(["web"]), [{ placement: placement(1) }])).toEqual({ fits: true, placement: placement(1) });
  expect(judgedOf({ ...order(["web"]), waitHours: 2 }, [{ placement: placement(0) }])).toEqual({ fits: false, placement: placement(0) });
  expect(judgedOf(order(["web-1", "web-2"]), [])).toEqual({ fits: true });
  expect(judgedOf({ ...order(["web-1", "web-2"]), waitHours: 2 }, [])).toBeUndefined();
  expect(judgedOf(order(["web"]), undefined)).toBeUndefined();
});

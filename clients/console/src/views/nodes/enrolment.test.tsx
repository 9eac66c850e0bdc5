import { renderToStaticMarkup } from "react-dom/server";
import { beforeEach, expect, it, vi } from "vitest";
import type { Discovery, InventoryNode, Slot, SlotCandidate } from "../../api/types";
import { type NodeToken, Tokens, approvable, enrolmentActions } from "./enrolment";

const api = vi.hoisted(() => ({ POST: vi.fn(), DELETE: vi.fn() }));
vi.mock("../../api/client", () => ({ client: api, unwrap: (answer: unknown) => answer }));

const node = (id: string, state: "pending" | "enrolled", mode = "slice") => ({ id, etag: `etag-${id}`, config: { hostname: `host-${id}`, mode }, status: { state } }) as InventoryNode;
const candidate = (slot_index: number, blockers: string[] = []) => ({ slot_index, blockers, bindings: { nvme_device: `disk-${slot_index}` } }) as SlotCandidate;
const found = (...candidates: SlotCandidate[]) => ({ id: "d", state: "completed", candidates }) as Discovery;
const slot = (slot_index: number) => ({ slot_index, status: "available" }) as Slot;

beforeEach(() => {
  api.POST.mockReset().mockImplementation(async (_, { params }) => ({ token: `secret-${params.path.node_id}` }));
  api.DELETE.mockReset().mockResolvedValue({});
});

/** The actions on these nodes by their words. */
function actionsOn(nodes: InventoryNode[], discoveries: [string, Discovery][] = [], slots: Slot[] = []) {
  const made: NodeToken[] = [];
  const actions = enrolmentActions(nodes, { slots: () => slots, discoveries: new Map(discoveries), made: (token) => made.push(token) });
  return { made, on: Object.fromEntries(actions.map((action) => [action.word, action.open.map(({ id }) => id).join("")])), run: async (word: string, reason = "") => {
    const action = actions.find((one) => one.word === word)!;
    for (const one of action.open) await action.run(one, reason);
  } };
}

it("what can be approved is what is new and has no blocker, of a discovery that is complete", () => {
  expect(approvable(undefined, [])).toEqual([]);
  expect(approvable(found(candidate(1), candidate(2, ["its disk is mounted"]), candidate(3)), [slot(3)])).toEqual([1]);
  expect(approvable({ ...found(candidate(1)), state: "running" }, [])).toEqual([]);
});

it("each action is on the nodes that it applies to, and is left out where it applies to none", () => {
  const all = [node("1", "pending"), node("2", "enrolled"), node("3", "enrolled", "baremetal")];
  expect(actionsOn(all).on).toEqual({ Enrol: "1", Discover: "2", Delete: "1" });
  expect(actionsOn(all, [["2", found(candidate(1))]]).on).toEqual({ Enrol: "1", Discover: "2", Approve: "2", Delete: "1" });
  expect(actionsOn([node("3", "enrolled", "baremetal")]).on).toEqual({});
  // one that has slots stays, whatever it says of its agent
  expect(actionsOn([node("1", "pending")], [], [slot(1)]).on).toEqual({ Enrol: "1" });
});

it("each node is enrolled, discovered, approved and deleted by a request of its own", async () => {
  const { run, made } = actionsOn([node("1", "pending"), node("2", "pending"), node("3", "enrolled")], [["3", found(candidate(4), candidate(5))]]);
  await run("Enrol");
  expect(made.map(({ hostname, token }) => [hostname, token])).toEqual([["host-1", "secret-1"], ["host-2", "secret-2"]]);
  await run("Discover");
  await run("Approve");
  const [discovered, approved] = api.POST.mock.calls.slice(-2);
  expect([discovered?.[0], discovered?.[1].params.path.node_id]).toEqual(["/api/v1/admin/nodes/{node_id}/slice-topology/discovery", "3"]);
  expect(approved?.[1].body).toEqual({ discovery_id: "d", slot_indexes: [4, 5] });
  await run("Delete", "wrong rack");
  expect(api.DELETE.mock.calls.map(([, { params }]) => [params.path.node_id, params.query])).toEqual([["1", { reason: "wrong rack", etag: "etag-1" }], ["2", { reason: "wrong rack", etag: "etag-2" }]]);
});

it("the tokens are shown with their nodes", () => {
  const text = renderToStaticMarkup(<Tokens tokens={[{ hostname: "gpu-05", token: "enrol-1", expire_time: "2026-12-01T00:00:00Z" }]} done={() => undefined} />);
  for (const part of ["gpu-05", "enrol-1", "The tokens are shown once", "I have saved them"]) expect(text).toContain(part);
});

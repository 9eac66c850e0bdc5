import { expect, it } from "vitest";
import type { InventoryNode, NodePlacement } from "../../api/types";
import { endOf } from "./removal";

const node = (state: "pending" | "enrolled" | "lost"): InventoryNode => ({ id: "n", status: { state } }) as InventoryNode;
const placed = (admin_state: NodePlacement["admin_state"], drained: boolean): NodePlacement => ({ node_id: "n", admin_state, drained }) as NodePlacement;

it("a node that never enrolled is deleted, one that is empty is retired, and all others are kept", () => {
  expect(endOf(node("pending"), null, 0)).toBe("delete");
  expect(endOf(node("pending"), undefined, 0), "while it is not known").toBeUndefined();
  expect(endOf(node("enrolled"), placed("draining", true), 8)).toBe("retire");
  expect(endOf(node("lost"), placed("maintenance", true), 8)).toBe("retire");
  expect(endOf(node("enrolled"), placed("draining", false), 8)).toBeUndefined();
  expect(endOf(node("enrolled"), placed("enabled", true), 8)).toBeUndefined();
  expect(endOf(node("enrolled"), placed("retired", true), 8)).toBeUndefined();
});

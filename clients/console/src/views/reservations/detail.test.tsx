import { beforeEach, expect, it, vi } from "vitest";
import type { Reservation } from "../../api/types";
import { partOf } from "../../ui/fixture";
import { End } from "./detail";

const kept = await vi.hoisted(async () => (await import("../../ui/fixture")).keptState());
vi.mock("react", async (original) => ({ ...(await original<object>()), useState: kept.useState }));
const api = vi.hoisted(() => ({ read: vi.fn(), cancel: vi.fn() }));
vi.mock("../../api/capacity", async (original) => ({ ...(await original<object>()), useReadReservation: () => api.read, useCancelReservation: () => ({ mutateAsync: api.cancel }) }));
vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

beforeEach(() => {
  kept.forget();
  vi.clearAllMocks();
});

const inState = (state: NonNullable<Reservation["status"]>["state"]): Reservation => ({ id: "r", config: { name: "night", region_code: "eu-1", sku: "s", gpu_count: 8, end_time: "2027-01-01T00:00:00Z" }, status: { state, reserved_gpus: 8 } });

/** The dialog while the page shows the reservation so. */
function dialog(reservation: Reservation) {
  const found = partOf<{ title: string; action: string; run: () => Promise<void>; reset: () => void }>(
    kept.drawn(() => End({ side: "project", reservation })),
    "run",
  );
  if (!found) throw new Error("no dialog");
  return found;
}

it("a reservation that starts while the question is open is not ended by the answer, and the question is the other one then", async () => {
  expect(dialog(inState("scheduled")).title).toBe("Cancel night?");
  // the page has read it since, or it has not: the question stays
  expect(dialog(inState("active")).action).toBe("Cancel reservation");
  api.read.mockResolvedValue(inState("active"));
  await expect(dialog(inState("scheduled")).run()).rejects.toThrow("night has started meanwhile. Confirm again");
  expect(api.cancel).not.toHaveBeenCalled();
  expect(dialog(inState("active")).title).toBe("Cancel night before its end?");
  await dialog(inState("active")).run();
  expect(api.cancel).toHaveBeenCalledWith("");
});

it("one that is as it was when the question was asked is cancelled, and one that is opened again is asked about anew", async () => {
  api.read.mockResolvedValue(inState("scheduled"));
  await dialog(inState("scheduled")).run();
  expect(api.cancel).toHaveBeenCalledOnce();
  dialog(inState("gathering")).reset();
  expect(dialog(inState("gathering")).title).toBe("Cancel night before its end?");
});

import { describe, expect, it } from "vitest";
import { Problem, adviceFor, causesOf, isOf, problemFrom } from "./problem";

const fragmented = "12 GPUs free on 2 nodes, none has 4 in one legal group.";
const refusal = (message: string) =>
  problemFrom(
    409,
    {
      error: {
        message,
        details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "FRAGMENTED", metadata: { index: "2", "FRAGMENTED.gpus": "12", "FRAGMENTED.nodes": "2", "FRAGMENTED.message": fragmented } }],
      },
    },
    null,
  );

describe("what went wrong", () => {
  it("a field of a batch or of a reservation is that of its form", () => {
    expect(isOf("name", "allocations[2].name")).toBe(true);
    expect(isOf("ssh_public_keys", "allocations[0].ssh_public_keys[1]")).toBe(true);
    expect(isOf("gpu_count", "config.gpu_count")).toBe(true);
    expect(isOf("name", "names")).toBe(false);
    const problem = new Problem({ status: 400, message: "no", fields: [{ field: "config.end_time", description: "must be after the start" }] });
    expect(problem.rule("end_time")).toBe("must be after the start");
    expect(problem.rule("start_time")).toBeUndefined();
  });

  it("one of a batch is told by its name", () => {
    const told = refusal("allocations[1]: 2 GPUs on 1 node are in use.").withNames(["web-1", "web-2"]);
    expect(told.message).toBe("web-2: 2 GPUs on 1 node are in use.");
    expect([told.status, told.reason, told.metadata["index"]]).toEqual([409, "FRAGMENTED", "2"]);
  });

  it("h_33_a_refusal_tells_each_cause_once", () => {
    expect(causesOf(refusal("Allocation 3 of 4 does not fit."))).toEqual([fragmented]);
    expect(causesOf(refusal(`0 of 4 GPU can be reserved now. ${fragmented}`))).toEqual([]);
    expect(adviceFor(refusal("no"))).toContain("Ask for fewer GPUs");
  });
});

import { describe, expect, it } from "vitest";
import { SecretLostError } from "@gpuaas/sdk";
import { problemFrom } from "./fixture";
import { Problem, adviceFor, causesOf, isOf, isOfCapacity, isStale, isUnschedulable, messageOf, problemOf, unsaidOf } from "./problem";

const fragmented = "12 GPUs are free on 2 nodes, but no node has 4 that can be used together.";
const refused = (message: string, reason: string, metadata: Record<string, string>) =>
  problemFrom(409, { error: { message, details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, metadata }] } });
const refusal = (message: string) => refused(message, "FRAGMENTED", { index: "2", "FRAGMENTED.gpus": "12", "FRAGMENTED.nodes": "2", "FRAGMENTED.message": fragmented });

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

  it("each rule is said once, with the fields in it as the form names them", () => {
    const bad = new Problem({ status: 400, message: "allocation_id: must be a UUID", fields: [{ field: "allocation_id", description: "must be a UUID" }] });
    expect([messageOf(bad), unsaidOf(bad)]).toEqual(["Allocation: must be a UUID", []]);
    const two = new Problem({ status: 400, message: "The request is invalid.", fields: bad.fields });
    expect([messageOf(two), unsaidOf(two)]).toEqual(["The request is invalid.", bad.fields]);
    const late = new Problem({ status: 400, message: "no_auto_release: contradicts auto_release_time", fields: [{ field: "no_auto_release", description: "contradicts auto_release_time" }] });
    expect([messageOf(late), late.rule("no_auto_release")]).toEqual(["Release at: contradicts Release at", "contradicts Release at"]);
  });

  it("an allocation of a batch is named", () => {
    const named = refusal("allocations[1]: 2 GPUs are in use on 1 node.").withNames(["web-1", "web-2"]);
    expect(named.message).toBe("web-2: 2 GPUs are in use on 1 node.");
    expect([named.status, named.reason, named.metadata["index"]]).toEqual([409, "FRAGMENTED", "2"]);
  });

  it("h_33_a_refusal_lists_each_reason_once", () => {
    expect(causesOf(refusal("Allocation 3 of 4 does not fit."))).toEqual([fragmented]);
    expect(causesOf(refusal(`0 of 4 GPUs can be reserved now. ${fragmented}`))).toEqual([]);
    expect(adviceFor(refusal("no"))).toBe("Request fewer GPUs, choose another region, or wait until capacity becomes free.");
    // a form names the ways that apply to it
    expect([["wait"], ["wait", "go"], []].map((ways) => adviceFor(refusal("no"), ways))).toEqual(["Wait.", "Wait or go.", undefined]);
  });

  it("con_10_h_33_a_refusal_for_a_missing_cached_image_names_how_many_nodes_lack_it_and_what_to_do", () => {
    const lack = "2 GPUs are free on 1 node without the cached image.";
    const problem = refused("The request does not fit.", "IMAGE_NOT_CACHED", { "IMAGE_NOT_CACHED.gpus": "2", "IMAGE_NOT_CACHED.nodes": "1", "IMAGE_NOT_CACHED.message": lack });
    expect(causesOf(problem)).toEqual([lack]);
    expect(adviceFor(problem)).toContain("Allow nodes without the cached image");
    // there is capacity: requesting less would not help
    expect(isOfCapacity(problem)).toBe(false);
    expect([problem, refusal("no"), refused("no", "AFFINITY", {})].map(isUnschedulable)).toEqual([true, true, true]);
    expect(isUnschedulable(refused("no", "QUOTA", {}))).toBe(false);
  });

  it("a secret whose answer was lost is told with what to do", () => {
    const lost = problemOf(new SecretLostError("made by an earlier attempt", { id: "w" }, "rotate the secret"));
    expect(lost).toBeInstanceOf(Problem);
    expect((lost as Problem).message).toBe("It was made, but the answer was lost on the way, and the secret is answered only once. Reload the page, then rotate the secret.");
  });

  it("a change that somebody else was quicker with is told with what to do, not with the field of the API", () => {
    const stale = problemFrom(409, { error: { message: "It was changed after you read it. Read it again, and decide anew.", details: [{ reason: "ETAG_STALE" }, { field_violations: [{ field: "etag", description: "must be the one of the resource as it is now" }] }] } });
    expect(isStale(stale)).toBe(true);
    expect([messageOf(stale), unsaidOf(stale), adviceFor(stale)]).toEqual(["Somebody else changed it meanwhile.", [], "Your change was not made. Reload to see the current values, then decide again."]);
    expect(isStale(refused("no", "STATE_CONFLICT", {}))).toBe(false);
  });

  it("missing permission, missing resources and unexplained errors come with advice", () => {
    const lacks = (roles: string, admin: boolean) => adviceFor(refused("no", "PERMISSION_DENIED", roles ? { roles } : {}), [], admin);
    expect(lacks("admin,operator", false)).toContain("ask an administrator");
    expect(lacks("owner,member", false)).toContain("Ask an owner");
    expect(lacks("owner,member", true)).toContain("Sign in as a member");
    // a scope, a guardrail: the message says all
    expect(lacks("", false)).toBeUndefined();
    for (const reason of ["ALLOCATION_NOT_FOUND", "NODE_NOT_FOUND", "NOT_FOUND"]) expect(adviceFor(refused("no", reason, {}))).toContain("Choose it from the list");
    expect(adviceFor(problemFrom(502, "<html>"))).toContain("Try again in a moment");
    const limit = refused("The project may reserve 0 GPUs and has reserved 0.", "RESERVATION_LIMIT", { limit: "0" });
    expect(adviceFor(limit)).toBe("Ask an administrator to raise the reservation limit.");
    expect(adviceFor(refused("The project may reserve 4 GPUs and has reserved 4.", "RESERVATION_LIMIT", { limit: "4" }))).toBe("Cancel a reservation, or ask an administrator to raise the reservation limit.");
    expect(adviceFor(limit, [], true)).toBe("Raise the reservation limit under All reservations.");
    expect(adviceFor(refused("The quota of the project is 2 allocations.", "QUOTA", {}))).toBe("Release an allocation, or ask an administrator to raise the quota.");
    const reserved = refused("The project may hold 4 GPU of s and has reserved 4 for that time, so it could not use 1 more.", "QUOTA", {});
    expect([false, true].map((admin) => adviceFor(reserved, [], admin))).toEqual(["Ask an administrator to raise the quota.", "Raise the quota under Quotas."]);
    expect(adviceFor(refused("You have 8 terminals open, the most allowed. Close one.", "QUOTA", {}), [], true)).toBeUndefined();
    for (const reason of ["SKU_UNKNOWN", "IMAGE_UNKNOWN", "REGION_UNKNOWN"]) expect([false, true].map((admin) => adviceFor(refused("no", reason, {}), [], admin)?.includes("Catalog"))).toEqual([false, true]);
    expect(adviceFor(problemFrom(400, undefined))).toBeUndefined();
  });
});

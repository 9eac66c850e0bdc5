import { ApiError } from "@gpuaas/sdk";
import { beforeEach, describe, expect, it } from "vitest";
import { signInAs } from "../session/fixture";
import { currentSession, endedBecause } from "../session/session";
import { endOf, unwrap } from "./client";
import { Problem } from "./problem";

const refusal = (reason: string, status = 401) => Promise.reject(new ApiError(status, { error: { message: "no", details: [{ reason }] } }, new Headers()));
const problem = (reason: string) => new Problem({ status: 401, message: "no", reason });

describe("a token that is refused in mid-session", () => {
  beforeEach(() => signInAs("unspecified"));

  it("has expired where the server says so, or where its time is over", () => {
    expect(endOf(problem("CREDENTIAL_EXPIRED"))).toBe("expired");
    expect(endOf(problem("CREDENTIAL_INVALID"))).toBe("refused");
    signInAs("unspecified", { expires: Date.now() - 1 });
    expect(endOf(problem("CREDENTIAL_INVALID"))).toBe("expired");
  });

  it("ends the session with that reason, and anything else does not", async () => {
    await expect(unwrap(refusal("PERMISSION_DENIED", 403))).rejects.toThrow(Problem);
    expect(currentSession()).toBeDefined();
    await expect(unwrap(refusal("CREDENTIAL_INVALID"))).rejects.toThrow("no");
    expect([currentSession(), endedBecause()]).toEqual([undefined, "refused"]);
    signInAs("unspecified");
    await expect(unwrap(refusal("CREDENTIAL_EXPIRED"))).rejects.toThrow("no");
    expect([currentSession(), endedBecause()]).toEqual([undefined, "expired"]);
  });
});

import { beforeEach, describe, expect, it } from "vitest";
import { signInAs } from "../session/fixture";
import { currentSession, endedBecause } from "../session/session";
import { endOf, unwrap } from "./client";
import { Problem } from "./problem";

const refusal = (reason: string, status = 401) => ({
  error: { error: { message: "no", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason }] } },
  response: new Response(null, { status }),
});
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
    await expect(unwrap(Promise.resolve(refusal("PERMISSION_DENIED", 403)))).rejects.toThrow("no");
    expect(currentSession()).toBeDefined();
    await expect(unwrap(Promise.resolve(refusal("CREDENTIAL_INVALID")))).rejects.toThrow("no");
    expect([currentSession(), endedBecause()]).toEqual([undefined, "refused"]);
    signInAs("unspecified");
    await expect(unwrap(Promise.resolve(refusal("CREDENTIAL_EXPIRED")))).rejects.toThrow("no");
    expect([currentSession(), endedBecause()]).toEqual([undefined, "expired"]);
  });
});

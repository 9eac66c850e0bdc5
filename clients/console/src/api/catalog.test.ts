import { expect, it } from "vitest";
import { onceVerified } from "./catalog";
import { problemFrom } from "./fixture";

const refused = (reason: string, status: number) =>
  problemFrom(status, { error: { message: "no", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, metadata: {} }] } });

it("a change of an image is repeated with one key until the content is verified, and no longer", async () => {
  const answers = [refused("IMAGE_BEING_VERIFIED", 503), refused("IMAGE_BEING_VERIFIED", 503), "done", refused("IMAGE_DIGEST_MISMATCH", 400)];
  const keys: string[] = [];
  const change = (header: { "X-Idempotency-Key": string }) => {
    keys.push(header["X-Idempotency-Key"]);
    const answer = answers.shift();
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  expect(await onceVerified(change)).toBe("done");
  expect([keys.length, new Set(keys).size]).toEqual([3, 1]);
  await expect(onceVerified(change)).rejects.toMatchObject({ reason: "IMAGE_DIGEST_MISMATCH" });
  expect([keys.length, new Set(keys).size]).toEqual([4, 2]);
});

import { expect, it } from "vitest";
import { cliOf, curlOf, keyNotes, quoted } from "./commands";
import type { Order } from "./use-launch";

const ORDER: Order = {
  project_id: "p1",
  names: ["web"],
  each: { region_code: "eu", sku: "h200", gpu_count: 2, image: "ubuntu", ssh_public_keys: ["ssh-ed25519 AAAA it's me"], labels: { team: "a b" }, placement: { require_prewarmed: true } },
  waitHours: undefined,
};

it("a word that a shell would read otherwise is quoted", () => {
  expect(quoted("a-b.c")).toBe("a-b.c");
  expect(quoted("it's")).toBe(String.raw`'it'\''s'`);
  expect(quoted("$(rm)")).toBe("'$(rm)'");
});

it("the command has what differs from its defaults, and the key as a file that it stands for", () => {
  const text = cliOf(ORDER, "web", "vision");
  expect(text.replaceAll(" \\\n  ", " ")).toBe(
    "gpuaas launch --sku h200 --gpus 2 --image ubuntu --region eu --name web --ssh-key ./pasted-key-1.pub --label 'team=a b' --require-prewarmed --project vision",
  );
  expect(cliOf({ ...ORDER, each: { ...ORDER.each, ssh_public_keys: [], ssh_key_names: ["laptop"] } }, "web")).toContain("--ssh-key laptop");
  expect(cliOf({ ...ORDER, names: ["web-1", "web-2"], waitHours: 4 }, "web")).toContain("--count 2");
});

it("each pasted key is a file of its own, and kept ones are named beside them", () => {
  const text = cliOf({ ...ORDER, each: { ...ORDER.each, ssh_key_names: ["laptop"], ssh_public_keys: ["ssh-ed25519 AAAA a@one", "ssh-rsa BBBB"] } }, "web");
  expect(text.match(/--ssh-key \S+/g)).toEqual(["--ssh-key laptop", "--ssh-key ./pasted-key-1.pub", "--ssh-key ./pasted-key-2.pub"]);
  expect(keyNotes(ORDER.each)).toEqual(["./pasted-key-1.pub is a placeholder for the pasted key ssh-ed25519 …AAAA it's me: save the key in this file, or name the file that has it."]);
});

it("the call carries the body and never a token", () => {
  const text = curlOf(ORDER, "https://gpu.example.com", 0);
  expect(text).toContain("https://gpu.example.com/api/v1/allocations");
  expect(text).toContain("Bearer $GPUAAS_TOKEN");
  expect(text).toContain(String.raw`it'\''s me`);
  const several = curlOf({ ...ORDER, names: ["web-1", "web-2"], waitHours: 1 }, "https://gpu.example.com", 0);
  expect(several).toContain(":batchCreate");
  expect(several).toContain("1970-01-01T01:00:00");
});

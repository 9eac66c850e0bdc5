import { expect, it } from "vitest";
import { cliOf, curlOf } from "./commands";
import { pythonOf, typescriptOf } from "./sdk-calls";
import type { Order } from "./use-launch";
import { userDataProblem } from "./user-data";

it("what the platform would refuse is said before it is sent", () => {
  for (const text of ["", "#cloud-config\n", "#!/bin/sh\n", "MIME-Version: 1.0\n", `#!${"x".repeat(16382)}`]) expect(userDataProblem(text)).toBeUndefined();
  expect(userDataProblem(`#${"ä".repeat(8192)}`)).toContain("16385");
  expect(userDataProblem("#!/bin/sh\n\0")).toContain("NUL");
  expect(userDataProblem("I2Nsb3VkLWNvbmZpZw==")).toContain("Begin with");
});

const order = (user_data?: string): Order => ({ project_id: "p", names: ["web"], each: { region_code: "a", sku: "s", gpu_count: 1, image: "i", user_data }, waitHours: undefined });

it("the same launch as a command or a call has it, too", () => {
  const text = "#!/bin/sh\necho 'it is'\n";
  expect(cliOf(order(text), "web")).toBe(`gpuaas launch \\\n  --sku s \\\n  --gpus 1 \\\n  --image i \\\n  --region a \\\n  --name web \\\n  --user-data - << 'END'\n${text}END`);
  expect(curlOf(order(text), "https://a", 0)).toContain(String.raw`"user_data": "#!/bin/sh\necho '\''it is'\''\n"`);
  expect(pythonOf(order(text), "https://a", 0)).toContain(String.raw`user_data="#!/bin/sh\necho 'it is'\n",`);
  expect(typescriptOf(order(text), "https://a", 0)).toContain(String.raw`user_data: "#!/bin/sh\necho 'it is'\n"`);
  for (const say of [cliOf(order(), "web"), curlOf(order(), "https://a", 0)]) expect(say).not.toContain("user");
});

it("no line of the text ends the command's input", () => {
  const command = cliOf(order("#!/bin/sh\nEND\nEND_\nrm x"), "web");
  expect(command.endsWith("rm x\nEND__")).toBe(true);
  expect(command).toContain("<< 'END__'\n");
});

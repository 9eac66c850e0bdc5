import { expect, it } from "vitest";
import { NO_CHECK, bodyOf, checkProblem, checksProblem, isGood } from "./readiness";

const gpus = { ...NO_CHECK, name: "gpus", command: " nvidia-smi -L ", expected: "GPU", perGpu: true };

it("inc_24_a_check_needs_a_name_of_its_own_and_a_command_and_a_time", () => {
  const first = (...checks: (typeof gpus)[]) => checkProblem(checks, checks.length - 1)?.field;
  expect(first(gpus)).toBeUndefined();
  expect([first(NO_CHECK), first({ ...gpus, name: "GPU" }), first(gpus, gpus)]).toEqual(["name", "name", "name"]);
  expect(first({ ...gpus, command: " " })).toBe("command");
  expect(["0", "601", "x", "1.5"].map((timeout) => first({ ...gpus, timeout }))).toEqual(["timeout", "timeout", "timeout", "timeout"]);
  expect(first({ ...gpus, timeout: "600" })).toBeUndefined();
});

it("inc_24_all_checks_together_have_ten_minutes", () => {
  const other = { ...gpus, name: "links", timeout: "541" };
  expect(checksProblem([gpus, other])).toContain("these take 601");
  expect(isGood([gpus, other])).toBe(false);
  expect(isGood([gpus, { ...other, timeout: "540" }])).toBe(true);
  expect(isGood([])).toBe(true);
});

it("inc_24_what_was_left_empty_is_not_sent", () => {
  expect(bodyOf([gpus, { ...NO_CHECK, name: "links", command: "ibv_devinfo", timeout: "30" }])).toEqual([
    { name: "gpus", command: "nvidia-smi -L", expected_text: "GPU", line_per_gpu: true },
    { name: "links", command: "ibv_devinfo", timeout_seconds: 30 },
  ]);
});

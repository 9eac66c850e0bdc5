import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { AttachedHostReport, HostReport } from "../../api/types";
import { Attached, MAX_BYTES, reportIn, summaryOf } from "./host-report";

const report: HostReport = {
  schema: 1,
  agent_version: "1.4.0",
  kind: "slice host",
  time: "2026-01-02T03:04:05Z",
  checks: [
    { check: "kvm", status: "PASS", detail: "nested", remediation: "Load kvm." },
    { check: "nat", status: "FAIL", detail: "no rule", remediation: "Run net-baseline." },
  ],
  blockers: ["nat"],
  by_hand: [
    { id: "first_slice", what: "Launch one.", good: "It runs.", result: "good, 2026-01-03" },
    { id: "gpu_reset", what: "Release ten times.", good: "Every reset succeeds.", result: " " },
  ],
};
const attached: AttachedHostReport = { id: "r", node_id: "n", principal: "user:root", attach_time: "2026-01-04T00:00:00Z", report };

it("i_219_the_report_of_a_host_shows_what_passed_what_failed_and_what_was_done_by_hand", () => {
  expect(summaryOf(report)).toBe("1 passed, 1 failed, 1 of 2 done by hand");
  const text = renderToStaticMarkup(<Attached attached={attached} />);
  for (const part of ["user:root", "1.4.0", "Run net-baseline.", "good, 2026-01-03", "Release ten times. Good: Every reset succeeds.", 'dateTime="2026-01-02T03:04:05Z"', 'dateTime="2026-01-04T00:00:00Z"']) expect(text).toContain(part);
  // what fails is first, and what passes needs nothing done
  expect(text.indexOf("no rule")).toBeLessThan(text.indexOf("nested"));
  expect(text).not.toContain("Load kvm.");
});

it("a file that is no report is said to be none", () => {
  expect(reportIn(JSON.stringify(report))).toEqual(report);
  for (const text of ["PASS kvm", "[]", "null", "{}", "x".repeat(MAX_BYTES + 1)]) expect(typeof reportIn(text)).toBe("string");
});

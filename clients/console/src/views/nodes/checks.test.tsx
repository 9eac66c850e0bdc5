import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import { Checks, type Evidence, countsText, inOrder } from "./checks";

const evidence = [
  { check: "vfio", status: "pass", severity: "hard", detail: "8 GPUs", remediation: "Bind them.", observed_at: "2026-01-02T03:04:05Z" },
  { check: "nvme_wear", status: "fail", severity: "warn", detail: "91 %", remediation: "Replace the disk.", devices: ["nvme-eui.7"] },
  { check: "nat", status: "fail", severity: "hard", detail: "no rule", remediation: "Run host.sh nat." },
  { check: "lldp", status: "skip" },
] as Evidence[];
const shown = (list: Evidence[], search = "") =>
  renderToStaticMarkup(
    <Router ssrPath="/admin/nodes/n" ssrSearch={search}>
      <Checks evidence={list} />
    </Router>,
  );

it("h_04_checks_are_read_by_what_matters_each_with_its_severity_remedy_and_age", () => {
  expect(inOrder(evidence).map(({ check }) => check)).toEqual(["nat", "nvme_wear", "vfio", "lldp"]);
  expect(countsText(evidence)).toBe("2 fail, 1 passes, 1 does not apply");
  const text = shown(evidence);
  for (const part of ["Run host.sh nat.", "Replace the disk.", "nvme-eui.7", "makes the node, or the slots of the failed device, unschedulable", 'dateTime="2026-01-02T03:04:05Z"']) expect(text).toContain(part);
  // what passes needs nothing done
  expect(text).not.toContain("Bind them.");
});

it("h_04_only_problems_are_shown_where_the_address_says_so_and_an_empty_list_says_what_to_do", () => {
  const text = shown(evidence, "?problems=1");
  expect(text).toContain("NAT");
  expect(text).not.toContain("8 GPUs");
  expect(shown([evidence[0]!], "?problems=1")).toContain("All checks pass");
  expect(shown([])).toContain("enrolment token");
});

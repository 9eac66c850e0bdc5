import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { ReadinessResult } from "../../api/types";
import { ReadinessChecks } from "./readiness";

const passed: ReadinessResult = { check: "cloud-init", passed: true, exit_status: 0, message: "cloud-init is done.", output_end: "", time: "2026-01-31T12:00:00Z" };
const failed: ReadinessResult = { check: "nvidia-smi", passed: false, exit_status: 127, message: "The command ended with exit status 127.", output_end: "sh: nvidia-smi: not found <b>", time: "2026-01-31T12:00:01Z" };

it("inc_24: a check that failed shows its output at once, as text", () => {
  const text = renderToStaticMarkup(<ReadinessChecks results={[passed, failed]} />);
  expect(text).toContain("cloud-init is done.");
  expect(text).toContain("The command ended with exit status 127.");
  expect(text).toContain('<details open="">');
  expect(text).toContain("sh: nvidia-smi: not found &lt;b&gt;");
});

it("an allocation whose image names no check shows nothing of them", () => {
  expect(renderToStaticMarkup(<ReadinessChecks results={[]} />)).toBe("");
  expect(renderToStaticMarkup(<ReadinessChecks results={undefined} />)).toBe("");
});

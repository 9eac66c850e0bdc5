// The audit trail, as administrators see it.
const ago = (minutes) => new Date(Date.now() - minutes * 60_000).toISOString();
const record = (number, change) => ({
  id: `01930000-0009-7000-8000-${String(number).padStart(12, "0")}`,
  source: "edge",
  service: "edge",
  create_time: ago(100 - number),
  principal: "user:olga",
  action: "quota.set",
  resource: "project",
  resource_id: "01930000-0000-7000-8000-00000000000a",
  request_id: `req-${number}`,
  address: "192.0.2.1",
  user_agent: "Mozilla/5.0",
  region: "eu-1",
  outcome: "allowed",
  detail: '{"max_gpus": 16}',
  position: String(number),
  digest: "0123456789abcdef".repeat(4),
  ...change,
});

const RECORDS = [
  record(5, { principal: "user:mallory", action: "price.create", resource: "catalog", resource_id: "", outcome: "denied", detail: '{"outcome": "denied"}', address: "2001:db8::7", position: "0", digest: "" }),
  record(4, {}),
  record(3, { source: "placement", service: "scheduler", principal: "service:scheduler", action: "reservation.end", resource: "reservation", address: "", user_agent: "", region: "", request_id: "" }),
];
const OLD = [record(2, {}), record(1, { principal: "user:alice", action: "allocation.create" })];

/** What the API answers, by its own filters. */
export const auditAnswers = {
  "GET /api/v1/admin/audit": (_, { searchParams }) => {
    const next = searchParams.get("page_token") === "next";
    const matches = (one) => ["principal", "action", "outcome", "source", "request_id", "resource_id"].every((name) => [null, one[name]].includes(searchParams.get(name)));
    const filtered = [...searchParams.keys()].some((name) => !name.startsWith("page_"));
    return {
      records: filtered ? [...RECORDS, ...OLD].filter(matches) : next ? OLD : RECORDS,
      next_page_token: filtered || next ? "" : "next",
      unreachable_sources: filtered ? [] : ["billing"],
    };
  },
};

export async function audit({ assert, page, test, look, go, signIn }) {
  await signIn("admin");
  const records = page.getByRole("table", { name: "Audit records" });

  await test("p10_the_audit_trail_marks_denials_and_names_who_from_where", async () => {
    await go("/admin/audit", "Audit");
    const denied = records.getByRole("row").filter({ hasText: "user:mallory" });
    await denied.getByText("Denied").waitFor();
    await denied.getByText("2001:db8::7").waitFor();
    await records.getByText("The platform").waitFor();
    await page.getByText("billing did not answer").waitFor();
    await records.getByLabel("Details of quota.set by user:olga").first().click();
    await records.getByText("Position 4").waitFor();
    await records.getByText('"max_gpus": 16').first().waitFor();
    const intro = page.locator("main p").filter({ hasText: "Every change of the platform" });
    const gap = await intro.evaluate((e) => {
      const range = document.createRange();
      range.selectNode(e.firstChild);
      return e.querySelector("code").getBoundingClientRect().left - [...range.getClientRects()].at(-1).right;
    });
    assert.ok(Math.abs(gap) < 20, `the command stands ${gap} px from its sentence`);
    await look("audit");
    await page.getByRole("button", { name: "Show more" }).click();
    await records.getByText("user:alice").waitFor();
  });

  await test("audit records are filtered, and the address keeps the filter", async () => {
    await page.getByLabel("Outcome").selectOption("denied");
    await page.getByText("1 record.").waitFor();
    await page.reload();
    await page.getByText("1 record.").waitFor();
    await page.getByLabel("Who").fill("user:nobody");
    await page.getByLabel("Who").press("Enter");
    await page.getByText("No record matches").waitFor();
    await look("audit-empty");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await records.getByText("user:olga").first().waitFor();
  });
}

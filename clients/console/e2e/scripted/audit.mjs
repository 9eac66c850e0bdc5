// The audit trail, as administrators see it.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

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

const ZERO = "0".repeat(64);
const MEMBERS = ["action", "address", "create_time", "detail", "id", "position", "principal", "region", "request_id", "resource", "resource_id", "service", "source", "user_agent"];

/** Sealed records of a source, as the operator's guide says what a digest covers. */
function sealed(source, count) {
  let before = ZERO;
  return Array.from({ length: count }, (_, index) => {
    const one = record(index + 1, { source, position: String(index + 1) });
    before = createHash("sha256").update(Buffer.from(before, "hex")).update(JSON.stringify(Object.fromEntries(MEMBERS.map((name) => [name, one[name]])))).digest("hex");
    return { ...one, digest: before };
  });
}
const CHAINS = { edge: sealed("edge", 7), billing: sealed("billing", 3), images: [] };
const placeOf = (all) => ({ position: String(all.length), digest: all.at(-1)?.digest ?? ZERO });

/** What the API answers, by its own filters. */
export const auditAnswers = {
  "GET /api/v1/admin/audit/chains": () => ({ chains: Object.entries(CHAINS).map(([source, all]) => ({ source, start: { position: "0", digest: ZERO }, head: placeOf(all), unsealed: "0" })) }),
  "GET /api/v1/admin/audit/*:export": (_, { pathname, searchParams }) => {
    const all = CHAINS[/audit\/(\w+):export/.exec(pathname)[1]];
    const after = Number(searchParams.get("after_position"));
    return { start: after === 0 ? { position: "0", digest: ZERO } : placeOf(all.slice(0, after)), head: placeOf(all), records: all.slice(after, after + 4) };
  },
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

  await test("p10_the_hash_chains_are_verified_in_the_browser_and_what_was_done_to_them_is_named", async () => {
    const dialog = page.getByRole("alertdialog");
    const chains = page.getByRole("table", { name: "Hash chains" });
    const verify = async (noted = "") => {
      await page.getByRole("button", { name: "Verify" }).click();
      await dialog.getByLabel("Checkpoints of an earlier run (optional)").fill(noted);
      await dialog.getByRole("button", { name: "Verify" }).click();
      await dialog.waitFor({ state: "detached" });
    };
    await go("/admin/audit", "Audit");
    await page.getByRole("button", { name: "Verify" }).click();
    await dialog.getByLabel("Checkpoints of an earlier run (optional)").fill("edge:7");
    await dialog.getByText("One checkpoint per line").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Verify" }).isDisabled());
    await look("audit-verify");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    const head = `edge:7:${CHAINS.edge[6].digest}`;
    await verify(head);
    await page.getByText("No record was changed, removed or moved.").waitFor();
    assert.equal(await chains.getByText("Intact").count(), 3);
    await chains.getByText(head).waitFor();
    await look("audit-verified");
    const sound = CHAINS.edge;
    CHAINS.edge = sound.map((one, index) => (index === 2 ? { ...one, principal: "user:bob" } : one)).slice(0, 6);
    await verify(head);
    await page.getByText("record 01930000-0009-7000-8000-000000000003 at position 3 does not match its digest").waitFor();
    await page.getByText("the chain ends at position 6, but position 7 is expected: its newest records were removed").waitFor();
    await chains.getByText("2 findings").waitFor();
    await look("audit-changed");
    CHAINS.edge = sound;
  });

  await test("the audit trail is exported into a file piece by piece, or as a download where the browser cannot", async () => {
    const dialog = page.getByRole("alertdialog");
    const lines = (text) => text.trim().split("\n").map((line) => JSON.parse(line));
    const check = (found) => {
      assert.deepEqual(found.filter(({ start }) => start).map(({ source }) => source), ["edge", "billing", "images"]);
      assert.deepEqual(found.filter(({ source, start }) => source === "edge" && !start), CHAINS.edge);
    };
    await go("/admin/audit", "Audit");
    // nobody can choose in the browser's own dialog: a file of the page's, which is written in the same way
    await page.evaluate(() => {
      window.showSaveFilePicker = async ({ suggestedName }) => (await navigator.storage.getDirectory()).getFileHandle((window.chosen = suggestedName), { create: true });
    });
    await page.getByRole("button", { name: "Export" }).click();
    await dialog.getByRole("button", { name: "Export" }).click();
    await page.getByText("Exported 10 records.").waitFor();
    check(lines(await page.evaluate(async () => (await (await (await navigator.storage.getDirectory()).getFileHandle(window.chosen)).getFile()).text())));
    // who chooses none
    await page.evaluate(() => {
      window.showSaveFilePicker = () => Promise.reject(new DOMException("The user aborted a request.", "AbortError"));
    });
    await page.getByRole("button", { name: "Export" }).click();
    await dialog.getByRole("button", { name: "Export" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText("Exported 10 records.").waitFor({ state: "detached" });
    assert.equal(await page.locator("main .problem").count(), 0);
    await page.evaluate(() => {
      window.showSaveFilePicker = undefined;
    });
    await page.getByRole("button", { name: "Export" }).click();
    await dialog.getByText("at most 256 MiB").waitFor();
    await look("audit-export");
    const [saved] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Export" }).click()]);
    assert.match(saved.suggestedFilename(), /^audit-all-\d{4}-\d\d-\d\d\.jsonl$/);
    check(lines(readFileSync(await saved.path(), "utf8")));
    await page.getByText("Exported 10 records.").waitFor();
  });
}

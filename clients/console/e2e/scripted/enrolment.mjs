// Several hosts come into the fleet at once, or go before they did.
import { nodeId, nodes, slots } from "./world.mjs";

/** Two nodes whose agents have not enrolled, beside the others. */
const pending = [5, 6].map((number) => ({ id: nodeId(number), etag: `n${number}`, config: { hostname: `gpu-0${number}`, region_code: "eu-1", mode: "slice" }, status: { state: "pending", blockers: [], evidence: [] }, metadata: { revision: "1" } }));
const messages = [...[...nodes, ...pending].map((one) => ({ node: { kind: "added", node: one } })), ...slots.map((one) => ({ slot: { kind: "added", slot: one } })), { synced: {} }];
const STREAM = messages.map((message, index) => `${JSON.stringify({ ...message, resume_token: String(index) })}\n`).join("");

export async function enrolment({ assert, page, server, test, look, go, signIn }) {
  const dialog = page.getByRole("alertdialog");
  const group = page.getByRole("group", { name: "Selected nodes" });
  const select = async (...names) => {
    for (const name of names) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
  };
  const answered = async () => {
    // by its text: the open dialog hides what is behind it from roles
    await page.getByText(/^\d selected$/).waitFor({ state: "detached" });
    return server.changes.slice(-2);
  };

  await test("several nodes are enrolled, discovered, approved and deleted at once", async () => {
    await signIn("operator");
    await page.route("**/api/v1/admin/nodes:watch*", (route) => route.fulfill({ contentType: "application/x-ndjson", body: STREAM }));
    await page.route("**/api/v1/admin/nodes/*/enrolment-tokens", (route) => route.fulfill({ json: { token: `enrol-once-${route.request().url().split("/")[7].slice(-4)}`, expire_time: new Date(Date.now() + 3_600_000).toISOString() } }));
    await go("/admin/nodes?view=table", "Nodes");
    await select("gpu-05", "gpu-06");
    assert.deepEqual(await group.getByRole("button").filter({ hasText: /Enrol|Discover|Approve|Delete/ }).allInnerTexts(), ["Enrol 2", "Delete 2"]);
    await look("enrolment-selected");
    await group.getByRole("button", { name: "Enrol 2" }).click();
    await dialog.getByText("gpu-05, gpu-06").waitFor();
    await dialog.getByRole("button", { name: "Enrol" }).click();
    await answered();
    const tokens = page.getByRole("table", { name: "Enrolment tokens" });
    for (const number of [5, 6]) await tokens.getByRole("row", { name: `gpu-0${number}` }).getByText(`enrol-once-000${number}`).waitFor();
    await look("enrolment-tokens");
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export CSV" }).click();
    assert.equal((await saved).suggestedFilename(), "enrolment-tokens.csv");
    await page.getByRole("button", { name: "I have saved them" }).click();
    await tokens.waitFor({ state: "detached" });

    await select("gpu-05", "gpu-06");
    await group.getByRole("button", { name: "Delete 2" }).click();
    await dialog.getByLabel("Reason").fill("ordered twice");
    await look("enrolment-delete");
    await dialog.getByRole("button", { name: "Delete" }).click();
    assert.deepEqual((await answered()).map(({ key }) => key), [5, 6].map((number) => `DELETE /api/v1/admin/nodes/${nodeId(number)}`));

    await select("gpu-01", "gpu-02");
    await group.getByRole("button", { name: "Approve 1" }).waitFor();
    await group.getByRole("button", { name: "Discover 2" }).click();
    await dialog.getByRole("button", { name: "Discover" }).click();
    assert.deepEqual((await answered()).map(({ key }) => key), [1, 2].map((number) => `POST /api/v1/admin/nodes/${nodeId(number)}/slice-topology/discovery`));

    await select("gpu-01", "gpu-02");
    await group.getByRole("button", { name: "Approve 1" }).click();
    await dialog.getByText("gpu-02: 1 slot (11)").waitFor();
    await look("enrolment-approve");
    await dialog.getByRole("button", { name: "Approve" }).click();
    assert.deepEqual((await answered()).at(-1), { key: `POST /api/v1/admin/nodes/${nodeId(2)}/resource-slots:approve`, body: { discovery_id: "d", slot_indexes: [11] } });
    await page.unroute("**/api/v1/admin/nodes:watch*");
    await page.unroute("**/api/v1/admin/nodes/*/enrolment-tokens");
    await signIn("admin");
  });
}

// That what has a name is called by it everywhere, and that two of one name are told apart.
import { readFileSync } from "node:fs";
import { ACME, SPEECH, VISION, allocation, allocationId, allocations, intervals, nodes, slots } from "./world.mjs";

export async function names({ assert, page, server, test, look, go, signIn }) {
  const table = (name) => page.getByRole("table", { name });
  const dialog = page.getByRole("alertdialog");
  const renamed = { ...allocations[0], display_name: "Large training run" };
  const watch = (route) => route.fulfill({ contentType: "application/x-ndjson", body: [...[renamed, ...allocations.slice(1)].map((one) => ({ change: { kind: "added", allocation: one } })), { synced: {} }].map((one, token) => `${JSON.stringify({ ...one, resume_token: String(token) })}\n`).join("") });

  await test("a new display name is seen on the overview, in the palette, for grants and for affinity", async () => {
    await signIn(undefined, "owner");
    await page.route("**/api/v1/allocations:watch*", watch);
    await page.route("**/api/v1/allocations?*", (route) => route.fulfill({ json: { allocations: [renamed, ...allocations.slice(1)] } }));
    await go("/overview", "Overview");
    await table("Running allocations").getByRole("link", { name: "Large training run" }).waitFor();
    await page.keyboard.press("Control+k");
    const input = page.getByRole("combobox", { name: /Go to/ });
    for (const part of ["large tr", "train-lar"]) {
      await input.fill(part);
      await page.getByRole("option", { name: "Large training run" }).waitFor();
    }
    await look("palette-display-name");
    await page.keyboard.press("Escape");
    await go("/project?tab=access", "Project vision");
    await table("Access to allocations").getByText("Large training run").waitFor();
    await go("/launch", "Launch");
    await page.getByRole("radio", { name: "Affinity", exact: true }).check({ force: true });
    await page.getByLabel("Same node as").selectOption({ label: "Large training run (h200-sxm-slice × 4)" });
    await page.unroute("**/api/v1/allocations:watch*");
    await page.unroute("**/api/v1/allocations?*");
  });

  await test("usage names allocations of every page and of every project, and keeps those of one name apart", async () => {
    await signIn(undefined, "owner");
    const asked = [];
    // the names of one project come in two pages; the second has what is older
    await page.route("**/api/v1/allocations?*", (route) => {
      const { searchParams } = new URL(route.request().url());
      asked.push([searchParams.get("project_id"), searchParams.get("page_token") ?? "", searchParams.get("include_ended"), searchParams.get("read_mask")]);
      if (searchParams.get("project_id") === SPEECH) return route.fulfill({ json: { allocations: [allocation(9, { name: "speech-train", project_id: SPEECH })] } });
      return route.fulfill({ json: searchParams.get("page_token") ? { allocations: [allocation(5, { name: "notebook" })] } : { allocations: [renamed, allocations[1]], next_page_token: "2" } });
    });
    const spoken = { ...intervals[0], id: "interval-9", project_id: SPEECH, allocation_id: allocationId(9) };
    await page.route("**/api/v1/usage?*", (route) => {
      const own = new URL(route.request().url()).searchParams.get("project_id") === SPEECH ? [spoken] : intervals;
      return route.fulfill({ json: { intervals: own, totals: [] } });
    });
    await go("/usage?range=30+days&by=allocation", "Usage");
    const groups = table("Cost in groups");
    await groups.getByText("Large training run").waitFor();
    // two allocations are called notebook
    assert.equal(await groups.getByText(/^notebook \([0-9a-f]{8}\)$/).count(), 2);
    await page.getByLabel("Projects", { exact: true }).selectOption("all");
    await groups.getByText("speech-train").waitFor();
    await table("Billed intervals").getByRole("link", { name: "speech-train" }).waitFor();
    assert.ok(asked.some(([project, token]) => project === VISION && token === "2"), "all pages are read");
    assert.ok(asked.every(([, , ended, mask]) => ended === "true" && mask.includes("allocations.display_name")));
    await look("usage-names");
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export CSV" }).click()]);
    const lines = readFileSync(await file.path(), "utf8").trim().split("\r\n");
    assert.deepEqual(lines.slice(1).map((line) => line.split(",").slice(0, 2).join()).sort(), ["speech,speech-train", "vision,Large training run", "vision,notebook", "vision,notebook"]);
    await page.unroute("**/api/v1/allocations?*");
    await page.unroute("**/api/v1/usage?*");
  });

  await test("projects of one slug are told apart by their organisations, and so is their cost", async () => {
    await signIn(undefined, "owner");
    const own = [{ id: VISION, slug: "dev", role: "owner", organisation_id: ACME, organisation: "acme" }, { id: SPEECH, slug: "dev", role: "owner", organisation_id: "01930000-0000-7000-8000-0000000000ad", organisation: "globex" }];
    server.caller = { ...server.caller, projects: own };
    const spoken = { ...intervals[0], id: "interval-9", project_id: SPEECH, allocation_id: allocationId(9) };
    await page.route("**/api/v1/usage?*", (route) => route.fulfill({ json: { intervals: new URL(route.request().url()).searchParams.get("project_id") === SPEECH ? [spoken] : intervals, totals: [] } }));
    await go("/usage?range=30+days&by=project&projects=all", "Usage");
    const choice = page.locator(".project-choice select");
    await choice.getByRole("option", { name: "globex/dev" }).waitFor({ state: "attached" });
    assert.deepEqual(await choice.getByRole("option").allInnerTexts(), ["acme/dev", "globex/dev"]);
    await table("Cost in groups").getByText("acme/dev").waitFor();
    await table("Cost in groups").getByText("globex/dev").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /Go to/ }).fill("dev");
    await page.getByRole("option", { name: "globex/dev" }).waitFor();
    await page.getByRole("option", { name: "acme/dev" }).waitFor();
    await look("palette-projects");
    await page.keyboard.press("Escape");
    await look("usage-projects");
    await page.unroute("**/api/v1/usage?*");
  });

  await test("the command of a launch has a flag for each key, and says what stands for a pasted one", async () => {
    await signIn(undefined, "owner");
    await go("/launch", "Launch");
    const key = (end, comment) => `ssh-ed25519 ${"A".repeat(64)}${end} ${comment}`;
    await page.getByLabel(/SSH public keys/).fill(`${key("ONE1", "alice@laptop")}\n${key("TWO2", "alice@desk")}`);
    await page.getByLabel("Name").fill("web");
    await page.getByText("Show as CLI, curl or SDK call").click();
    const command = await page.getByRole("region", { name: "Command" }).textContent();
    for (const number of [1, 2]) assert.match(command, new RegExp(`--ssh-key \\./pasted-key-${number}\\.pub`));
    await page.getByText("./pasted-key-2.pub stands for the pasted key ssh-ed25519 …AAAATWO2 alice@desk").waitFor();
    await look("launch-pasted-keys");
  });

  await test("health events of one's GPUs are all there, filtered by state, kind and allocation", async () => {
    await signIn(undefined, "viewer");
    await go("/overview", "Overview");
    await page.locator(".card").filter({ has: page.getByRole("heading", { name: "Health of your GPUs" }) }).getByRole("link", { name: "Show all" }).click();
    const events = table("Health events");
    await page.getByRole("heading", { level: 1, name: "Health events" }).waitFor();
    await events.getByText("Its host does not report.").waitFor();
    await events.getByRole("link", { name: "train-large" }).waitFor();
    await look("health-events");
    await page.getByLabel("State", { exact: true }).selectOption("open");
    await events.getByText("A check of the host failed.").waitFor({ state: "detached" });
    await page.getByLabel("Kind", { exact: true }).selectOption("failed");
    await page.getByText("No health event matches").waitFor();
    await look("health-events-none");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await events.getByText("A check of the host failed.").waitFor();
    await page.getByLabel("Allocation", { exact: true }).selectOption({ label: "notebook" });
    await events.getByText("A check of the host failed.").waitFor({ state: "detached" });
    assert.match(page.url(), /allocation=/);
    await page.route("**/api/v1/health-events?*", (route) => {
      const token = new URL(route.request().url()).searchParams.get("page_token");
      return route.fulfill({ json: { events: [{ id: token || "e1", allocation_id: allocationId(1), gpu_count: 1, health: "degraded", start_time: new Date().toISOString(), message: token ? "An older one." : "A newer one." }], next_page_token: token ? "" : "e0" } });
    });
    await go("/health-events", "Health events");
    await page.getByRole("button", { name: "Show more" }).click();
    await events.getByText("An older one.").waitFor();
    await page.route("**/api/v1/health-events?*", (route) => route.fulfill({ json: { events: [] } }));
    await go("/health-events", "Health events");
    await page.getByText("No health events").waitFor();
    await look("health-events-empty");
    await page.unroute("**/api/v1/health-events?*");
  });

  await test("work under way leads to the allocation, and to the others where there are more than fit", async () => {
    await signIn("operator");
    const many = Array.from({ length: 11 }, (_, index) => allocation(20 + index, { name: `boot-${index}`, state: "provisioning", hours: 1 }));
    many[10].display_name = "First boot";
    await page.route("**/api/v1/admin/nodes:watch*", (route) => {
      const messages = [...nodes.map((node) => ({ node: { kind: "added", node } })), ...many.map(({ id }, index) => ({ slot: { kind: "added", slot: { ...slots[0], id: `s-${index}`, slot_index: index, allocation_id: id, status: "provisioning" } } })), { synced: {} }];
      return route.fulfill({ contentType: "application/x-ndjson", body: messages.map((one, token) => `${JSON.stringify({ ...one, resume_token: String(token) })}\n`).join("") });
    });
    await page.route("**/api/v1/admin/allocations?*", (route) => route.fulfill({ json: { allocations: many.map((one) => ({ allocation: one, node_id: nodes[0].id })), next_page_token: "" } }));
    await page.route("**/api/v1/admin/allocations/*", (route) => {
      const found = many.find(({ id }) => route.request().url().includes(id));
      return found ? route.fulfill({ json: { allocation: found, node_id: nodes[0].id, claims: [], tasks: [], timeline: [] } }) : route.fallback();
    });
    await go("/admin", "Platform overview");
    const work = table("Allocations in progress");
    await work.getByRole("link").nth(7).waitFor();
    assert.equal(await work.getByRole("link").count(), 8);
    await look("platform-many");
    assert.equal(await page.getByRole("link", { name: "3 more" }).getAttribute("href"), "/admin/allocations");
    await work.getByRole("link", { name: "First boot" }).click();
    await page.getByRole("heading", { level: 1, name: /First boot/ }).waitFor();
    await page.unroute("**/api/v1/admin/nodes:watch*");
    await page.unroute("**/api/v1/admin/allocations/*");
    await page.unroute("**/api/v1/admin/allocations?*");
  });
}

// What a suspended project says, and what administrators do with projects and organisations of others.
import { ACME, VISION, organisations, projects } from "./world.mjs";

export async function suspension({ assert, page, server, test, look, go, signIn }) {
  const table = (name) => page.getByRole("table", { name });
  const dialog = page.getByRole("alertdialog");
  const note = page.getByRole("region", { name: "Suspended" });
  const PROJECT = `**/api/v1/projects/${VISION}`;
  const organisation = { ...organisations[0], role: "owner" };
  /** The project and its organisation as the API tells of them. */
  const tell = async (project, of = organisation) => {
    await page.unroute(PROJECT);
    await page.unroute("**/api/v1/organisations?*");
    await page.route(PROJECT, (route) => (route.request().method() === "GET" ? route.fulfill({ json: { ...projects[0], organisation_id: ACME, role: "owner", etag: "p1", create_time: organisation.create_time, ...project } }) : route.fallback()));
    await page.route("**/api/v1/organisations?*", (route) => route.fulfill({ json: { organisations: [of] } }));
  };
  const settings = () => go("/project?tab=settings", "Project vision");
  const offers = () => page.getByRole("button", { name: "Resume" }).count();

  await test("members of a suspended project read why on the overview and at the launch, and what to do", async () => {
    await signIn(undefined, "member");
    await tell({ state: "suspended", state_reason: "The budget of this year is used." });
    for (const [path, title] of [["/overview", "Overview"], ["/launch", "Launch"]]) {
      await go(path, title);
      await note.getByText("Reason: The budget of this year is used.").waitFor();
      await note.getByText("Owners of the project resume it. Ask one.").waitFor();
      await look(`suspended-${title.toLowerCase()}`);
    }
    await tell({ state: "active" });
    await go("/overview", "Overview");
    await page.getByText("10 of 16 left").waitFor();
    assert.equal(await note.count(), 0);
  });

  await test("an owner resumes what an owner suspended, and is told who resumes the rest", async () => {
    await signIn(undefined, "owner");
    await tell({ state: "suspended", state_reason: "The budget is used." });
    await go("/overview", "Overview");
    await note.getByRole("link", { name: "Settings of the project" }).click();
    await note.getByText("Reason: The budget is used.").waitFor();
    assert.equal(await offers(), 1);
    await tell({ state: "suspended", state_reason: "unpaid", suspended_by_platform: true });
    await settings();
    await note.getByText("Only an administrator of the platform resumes it. Ask one.").waitFor();
    assert.equal(await offers(), 0, "suspended by the platform");
    await look("suspended-settings-platform");
    await tell({ state: "suspended", state_reason: "unpaid" }, { ...organisation, state: "suspended", state_reason: "Unpaid since March." });
    await settings();
    await note.getByText("The organisation Acme Research is suspended.").waitFor();
    await note.getByText("Reason: Unpaid since March.").waitFor();
    assert.equal(await offers(), 0, "the organisation is suspended");
    await look("suspended-settings-organisation");
    await page.unroute(PROJECT);
    await page.unroute("**/api/v1/organisations?*");
  });

  await test("an administrator suspends a project of others, resumes it, and closes it once nothing runs in it", async () => {
    await signIn("admin");
    await tell({ state: "active", role: "unspecified" });
    await go("/admin/organisations", "Organisations");
    await table("Projects of acme").getByRole("link", { name: "Vision" }).click();
    await page.getByRole("heading", { level: 1, name: /Vision/ }).waitFor();
    await table("Running").getByRole("link", { name: "train-large" }).waitFor();
    await table("Members").getByText("bob@example.com").waitFor();
    await look("admin-project");
    await page.getByRole("button", { name: "Close" }).click();
    await dialog.getByText("Allocation train-large").waitFor();
    await dialog.getByLabel("Reason").fill("over");
    assert.ok(await dialog.getByRole("button", { name: "Close" }).isDisabled(), "something runs");
    await look("admin-project-close");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Suspend" }).click();
    assert.ok(await dialog.getByRole("button", { name: "Suspend" }).isDisabled(), "a reason is required");
    await dialog.getByLabel("Reason").fill("unpaid");
    await tell({ state: "suspended", state_reason: "unpaid", suspended_by_platform: true, role: "unspecified" });
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1), { key: `POST /api/v1/projects/${VISION}:suspend`, body: { etag: "p1", reason: "unpaid" } });
    await note.getByText("Reason: unpaid").waitFor();
    await look("admin-project-suspended");
    await page.getByRole("button", { name: "Resume" }).click();
    await dialog.getByRole("button", { name: "Resume" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(server.changes.at(-1).key, `POST /api/v1/projects/${VISION}:resume`);
    await page.route("**/api/v1/admin/allocations?*", (route) => route.fulfill({ json: { allocations: [] } }));
    await page.route("**/api/v1/admin/capacity-reservations?*", (route) => route.fulfill({ json: { reservations: [] } }));
    await page.reload();
    await page.getByText("Nothing runs in the project, and nothing is reserved for it.").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await dialog.getByLabel("Reason").fill("over");
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1), { key: `POST /api/v1/projects/${VISION}:close`, body: { etag: "p1", reason: "over" } });
    await page.unroute("**/api/v1/admin/allocations?*");
    await page.unroute("**/api/v1/admin/capacity-reservations?*");
  });

  await test("an administrator sees and adds members of a project and of an organisation of others; auditors only see them", async () => {
    await tell({ state: "active", role: "unspecified" });
    for (const [path, title, made] of [[`/admin/projects/${VISION}`, /Vision/, `POST /api/v1/projects/${VISION}/members`], [`/admin/organisations/${ACME}`, /Acme Research/, `POST /api/v1/organisations/${ACME}/members`]]) {
      await signIn("admin");
      await go(path, title);
      await page.getByRole("button", { name: "Add a member" }).click();
      await dialog.getByText("For anybody who is registered on the platform.").waitFor();
      await dialog.getByLabel("Principal").fill("user:erin");
      await dialog.getByRole("button", { name: "Add" }).click();
      await dialog.waitFor({ state: "detached" });
      assert.deepEqual(server.changes.at(-1), { key: made, body: { principal: "user:erin", role: "member" } });
      await look(path.includes("projects") ? "admin-project-members" : "admin-organisation");
      await signIn("auditor");
      await go(path, title);
      await table("Members").getByText("bob@example.com").waitFor();
      assert.deepEqual(await page.locator("main").getByRole("button").allInnerTexts().then((texts) => texts.filter((text) => text.trim() !== "Copy")), []);
    }
    await page.unroute(PROJECT);
    await page.unroute("**/api/v1/organisations?*");
  });
}

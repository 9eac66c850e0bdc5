// What all dialogs have in common.
import { accessible, decide, findings } from "../accessible.mjs";
import { reservationId } from "./fleet.mjs";
import { ago, ahead, projects } from "./world.mjs";

export async function dialogs({ assert, page, test, look, go, signIn }) {
  const isInert = () => page.evaluate(() => document.getElementById("root").inert);
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);

  await test("nothing behind a dialog is reached while it is open, and the focus goes back to where it was", async () => {
    await signIn("admin");
    await go("/admin/nodes", "Nodes");
    for (const [button, role] of [["Register a node", "dialog"], ["Go to…", "dialog"]]) {
      await page.getByRole("button", { name: button }).focus();
      await page.keyboard.press("Enter");
      await page.getByRole(role).waitFor();
      assert.ok(await isInert(), `behind ${button}`);
      await page.keyboard.press("Escape");
      await page.getByRole(role).waitFor({ state: "detached" });
      await page.waitForFunction(() => !document.getElementById("root").inert);
      assert.match(await focused(), new RegExp(button.slice(0, 5)));
    }
    await go("/keys", "SSH keys");
    await page.getByRole("button", { name: "Delete laptop" }).click();
    await page.getByRole("alertdialog").waitFor();
    assert.ok(await isInert());
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.waitForFunction(() => !document.getElementById("root").inert);
    assert.equal(await focused(), "Delete laptop");
    // the button that opened the dialog leaves with it
    await page.route("**/api/v1/ssh-keys?*", (route) => route.fulfill({ json: { ssh_keys: [] } }));
    await page.getByRole("button", { name: "Delete laptop" }).press("Enter");
    await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).press("Enter");
    await page.getByText("No key yet").first().waitFor();
    await page.getByRole("alertdialog").waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement !== document.body);
    await page.unroute("**/api/v1/ssh-keys?*");
  });

  await test("a question stays what it was while somebody else changes it, and is asked anew once the change is loaded", async () => {
    await signIn();
    let network = { vms_reach_each_other: true, etag: "q1" };
    const sent = [];
    await page.route("**/api/v1/project-network*", (route) => {
      if (route.request().method() === "GET") return route.fulfill({ json: network });
      sent.push(route.request().postDataJSON());
      network = { vms_reach_each_other: false, etag: "q2" };
      return route.fulfill({ status: 409, json: { error: { code: 409, status: "ABORTED", message: "etag: is of an older one", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "ETAG_STALE" }] } } });
    });
    await go("/launch?gpus=4", "Launch");
    const dialog = page.getByRole("alertdialog");
    await page.getByRole("button", { name: "Isolate VMs" }).click();
    await dialog.getByRole("button", { name: "Isolate", exact: true }).click();
    await dialog.getByText("Somebody else changed it meanwhile.").waitFor();
    await dialog.getByRole("button", { name: "Isolate", exact: true }).waitFor();
    await dialog.getByRole("button", { name: "Reload" }).click();
    await dialog.getByRole("button", { name: "Allow" }).click();
    await dialog.getByText("Somebody else changed it meanwhile.").waitFor();
    assert.deepEqual(sent.map(({ vms_reach_each_other, etag }) => [vms_reach_each_other, etag]), [[false, "q1"], [true, "q2"]]);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.unroute("**/api/v1/project-network*");
  });

  await test("a reservation that starts while it is being canceled is not ended by the answer", async () => {
    await signIn(undefined, "owner");
    const reservation = { id: reservationId, config: { project_id: projects[0].id, name: "night-run", region_code: "eu-1", sku: "h200-sxm-slice", gpu_count: 8, start_time: ahead(1), end_time: ahead(20) }, status: { state: "scheduled" }, metadata: { create_time: ago(1), created_by: "user:alice", made_by_project: true } };
    const sent = [];
    await page.route(`**/capacity-reservations/${reservationId}*`, (route) => {
      if (route.request().method() === "POST") sent.push(route.request().postDataJSON());
      return route.fulfill({ json: reservation });
    });
    await go(`/reservations/${reservationId}`, "night-run");
    const dialog = page.getByRole("alertdialog");
    await page.getByRole("button", { name: "Cancel reservation" }).click();
    await dialog.getByText("The reservation will not start.").waitFor();
    reservation.status = { state: "active", reserved_gpus: 8 };
    await dialog.getByRole("button", { name: "Cancel reservation" }).click();
    await dialog.getByText("night-run has started meanwhile.").waitFor();
    await dialog.getByText("Its 8 GPUs become available").waitFor();
    assert.deepEqual(sent, []);
    await look("reservation-started-meanwhile");
    await dialog.getByRole("button", { name: "Cancel reservation" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent, [{ reason: "" }]);
    await page.unroute(`**/capacity-reservations/${reservationId}*`);
  });

  await test("what axe calls minor is found, too", async () => {
    await go("/keys", "SSH keys");
    await page.evaluate(() => document.querySelector("main").insertAdjacentHTML("beforeend", '<div id="minor"><table><thead><tr><th></th></tr></thead><tbody><tr><td>x</td></tr></tbody></table></div>'));
    const before = findings.length;
    await accessible(page, "a table with a header that says nothing");
    const found = findings.splice(before);
    await page.evaluate(() => document.querySelector("#minor").remove());
    assert.equal(found.length, 1, found.join("\n"));
    assert.match(found[0], /empty-table-header/);
  });

  await test("what axe left open of an element that is gone stays open", async () => {
    await go("/keys", "SSH keys");
    const incomplete = [{ id: "color-contrast", help: "contrast", nodes: [{ target: ["#gone"] }] }];
    assert.deepEqual(await page.evaluate(decide, { incomplete, options: {}, undecided: [] }), [{ id: "color-contrast", help: "contrast", why: "#gone is gone" }]);
  });
}

// Every page at every size, light and dark.
import { ACME, VISION, allocationId, failed, nodeId } from "./world.mjs";
import { reservationId, rolloutId } from "./fleet.mjs";

const SIZES = [
  { width: 1440, height: 900 },
  { width: 1280, height: 720 },
  { width: 768, height: 1024 },
  { width: 390, height: 844 },
];
const node = `/admin/nodes/${nodeId(1)}`;
/** What a member of a project sees, and those of all projects. */
const OWN = [
  ["/overview", "/allocations", `/allocations/${allocationId(1)}`, `/allocations/${failed.id}`, "/launch", "/reservations", "/reservations/new", `/reservations/${reservationId}`, "/activity", "/health-events", "/usage", "/keys", "/api-keys"],
  ["", "invitations", "access", "webhooks", "settings"].map((tab) => `/project?tab=${tab}`),
  ["", "invitations", "projects", "groups", "scim", "webhooks", "settings"].map((tab) => `/organisation?tab=${tab}`),
  ["/join", "/no-such-page"],
].flat();
const PLATFORM = [
  ["/admin", "/admin/allocations", `/admin/allocations/${allocationId(1)}`, "/admin/nodes", "/admin/nodes?view=table", "/admin/agent-rollouts", `/admin/agent-rollouts/${rolloutId}`],
  ["", "topology", "evidence", "history", "images", "evacuation", "comparison"].map((tab) => `${node}?tab=${tab}`),
  ["history", "queue", "defragmentation", "baremetal"].map((tab) => `/admin/capacity?tab=${tab}`),
  ["/admin/reservations", "/admin/reservations/new", `/admin/reservations/${reservationId}`],
  ["", "skus", "prices", "images"].map((tab) => `/admin/catalog?tab=${tab}`),
  ["/admin/quotas", "/admin/organisations", `/admin/organisations/${ACME}`, `/admin/projects/${VISION}`, "/admin/principals", "/admin/terminals", "/admin/audit"],
].flat();

export async function sweep({ assert, page, server, test, signIn, take, wide, accessible }) {
  /** Looks at each of these pages at these sizes, and gives what is wrong with it. */
  const look = async (who, paths, sizes) => {
    const found = [];
    for (const [number, path] of paths.entries()) {
      await page.goto(server.base + path.replace(/\?tab=$/, ""));
      await page.locator("main h1").waitFor();
      await page.waitForFunction(() => !document.querySelector("main .skeleton, main [aria-busy=true]"));
      for (const problem of await page.locator("main .problem-message").allInnerTexts()) if (/not scripted|failed:/.test(problem)) found.push(`${path}: ${problem}`);
      const name = `${who}-${String(number + 1).padStart(2, "0")}-${path.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, "one").replace(/\W+/g, "-").replace(/^-|-$/g, "")}`;
      for (const size of sizes) {
        await page.setViewportSize(size);
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          await take(page, `sweep/${name}-${size.width}-${colorScheme}`);
          // colours are the same at each size, and what is laid out differs most between the largest and the smallest
          if (size === SIZES[0] || size === SIZES.at(-1)) await accessible(page, `${who}: ${path} at ${size.width}, ${colorScheme}`);
        }
        found.push(...(await page.evaluate(wide)).map((what) => `${who}: ${path} at ${size.width}: ${what}`));
      }
    }
    await page.emulateMedia({ colorScheme: null });
    return found;
  };

  await test("every page at every size, light and dark: nothing scrolls that should not, and axe finds nothing", async () => {
    await signIn("admin");
    assert.deepEqual(await look("admin", [...OWN, ...PLATFORM], SIZES), []);
  });

  await test("every page as a member of a project has it, large and small", async () => {
    await signIn(undefined, "member");
    assert.deepEqual(await look("member", OWN, [SIZES[0], SIZES.at(-1)]), []);
  });
}

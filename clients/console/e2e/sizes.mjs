// Every page at every size, light and dark: nothing scrolls sideways, and a row of tabs does not scroll at all.
import assert from "node:assert/strict";
import { BASE, WIDE, name, page, shot, signIn, signOut, test } from "./world.mjs";

const SIZES = [
  { width: 390, height: 844 },
  { width: 768, height: 1024 },
  { width: 1280, height: 720 },
  { width: 1440, height: 900 },
];

/** What is wider than its place, or a row of tabs that is higher. */
function tooLarge() {
  const inner = [...document.querySelectorAll(".table-card, .scroll, main table, .domains")].filter((e) => e.scrollWidth > e.clientWidth + 1);
  const tabs = [...document.querySelectorAll("[role=tablist]")].filter((e) => e.scrollHeight > e.clientHeight);
  const page = document.documentElement.scrollWidth > innerWidth ? [document.documentElement] : [];
  return [...page, ...inner, ...tabs].map((e) => `${e.tagName}.${e.className} ${e.getAttribute("aria-label") ?? ""} ${e.scrollWidth}x${e.scrollHeight} in ${e.clientWidth}x${e.clientHeight}`);
}

async function sweep(pages) {
  const found = [];
  for (const [title, path, there] of pages) {
    await page.goto(BASE + path);
    await there().first().waitFor();
    for (const size of SIZES) {
      await page.setViewportSize(size);
      for (const theme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: theme });
        await shot(`sizes/${title}-${size.width}-${theme}`);
      }
      found.push(...(await page.evaluate(tooLarge)).map((what) => `${path} at ${size.width}: ${what}`));
    }
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize(WIDE);
  return found;
}

export async function sizes() {
  await test("no page scrolls sideways at any size, light or dark", async () => {
    const table = (title) => () => page.getByRole("table", { name: title });
    await signOut();
    await signIn("user:demo");
    await page.getByRole("radio", { name: "System" }).check({ force: true });
    const id = await page.evaluate(async (wanted) => {
      const { token } = JSON.parse(sessionStorage.getItem("gpuaas.session"));
      const answer = await fetch("/api/v1/allocations?include_ended=true", { headers: { Authorization: `Bearer ${token}` } });
      return (await answer.json()).allocations.find(({ config }) => config.name === wanted).id;
    }, name);
    const found = await sweep([
      ["allocations", "/allocations?ended=1", table("Allocations")],
      ["allocation", `/allocations/${id}`, () => page.getByRole("list", { name: "Timeline of Launch" })],
      ["launch", "/launch", () => page.getByLabel("SSH public keys")],
      ["usage", "/usage", table("Billed intervals")],
      ["reservations", "/reservations?ended=1", table("Reservations")],
      ["reserve", "/reservations/new", () => page.getByLabel("Name")],
      ["organisation-groups", "/organisation?tab=groups", () => page.getByRole("heading", { name: "Organisation" })],
      ["not-found", "/no-such-page", () => page.getByText("This page does not exist")],
    ]);
    await signOut();
    await signIn("user:admin");
    await page.getByRole("link", { name: "Nodes" }).click();
    const node = new URL(await page.getByRole("link", { name: /lab-host/ }).evaluate((link) => link.href)).pathname;
    found.push(
      ...(await sweep([
        ["nodes", "/admin/nodes", () => page.getByRole("article")],
        ["node-slots", node, () => page.getByRole("heading", { name: /Slot 0/ })],
        ["node-topology", `${node}?tab=topology`, table("Candidates")],
        ["node-checks", `${node}?tab=evidence`, table("Evidence")],
        ["node-history", `${node}?tab=history`, table("History")],
        ["node-images", `${node}?tab=images`, table("Cached images")],
        ["node-evacuation", `${node}?tab=evacuation`, () => page.getByText("No allocations on this node")],
        ["capacity", "/admin/capacity", table("Capacity by SKU and region")],
        ["queue", "/admin/capacity?tab=queue", () => page.getByText("The queue is empty")],
        ["defragmentation", "/admin/capacity?tab=defragmentation", () => page.getByRole("combobox", { name: "SKU" })],
        ["bare-metal", "/admin/capacity?tab=baremetal", () => page.getByRole("button", { name: "Refresh" })],
        ["all-reservations", "/admin/reservations?ended=1", table("All reservations")],
      ])),
    );
    await signOut();
    await signIn("user:demo");
    assert.deepEqual(found, []);
  });
}

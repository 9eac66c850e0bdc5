// Every page with a played API: node e2e/scripted/run.mjs [folder for screenshots] [parts of tests' names, with | between them]
import assert from "node:assert/strict";
import { accessible, findings } from "../accessible.mjs";
import { camera, open, start } from "../browser.mjs";
import { audit, auditAnswers } from "./audit.mjs";
import { dialogs } from "./dialogs.mjs";
import { enrolment } from "./enrolment.mjs";
import { fleetAnswers } from "./fleet.mjs";
import { names } from "./names.mjs";
import { narrow } from "./narrow.mjs";
import { outside } from "./outside.mjs";
import { reference } from "./reference.mjs";
import { roles } from "./roles.mjs";
import { tenants } from "./tenants.mjs";
import { pages } from "./pages.mjs";
import { play } from "./server.mjs";
import { suspension } from "./suspension.mjs";
import { sweep } from "./sweep.mjs";
import { ACME, answers, projects } from "./world.mjs";

export const SIZES = [
  { width: 1440, height: 900 },
  { width: 768, height: 1024 },
  { width: 390, height: 844 },
];

const take = camera(process.argv[2] ?? "e2e/screenshots/scripted");
const only = (process.argv[3] ?? "").split("|");
const browser = await start();
const server = await play({ ...fleetAnswers, ...answers, ...auditAnswers, "GET /api/v1/whoami": () => server.caller });
const page = await open(browser, { viewport: SIZES[0] });
const failed = [];

/** With a role on the platform, or as a member of projects, with a role there; the server says the same. */
async function signIn(platformRole, role, on = page) {
  const own = projects.map(({ id, slug }) => ({ id, slug, organisation_id: ACME, ...(role && { role }) }));
  server.caller = { principal: platformRole ? "user:olga" : "user:alice", platform_role: platformRole ?? "unspecified", projects: projects.map(({ id, slug }) => ({ id, slug, organisation_id: ACME, role: role ?? "owner" })), organisations: [] };
  const session = { token: "a.b.c", principal: platformRole ? "user:olga" : "user:alice", platformRole, projects: own, project: projects[0].id, expires: Date.now() + 3_600_000_000, renewable: false, renewAt: Date.now() + 3_600_000_000 };
  await on.goto(`${server.base}/icon.svg`);
  await on.evaluate((value) => sessionStorage.setItem("gpuaas.session", JSON.stringify(value)), session);
}

/** What is wider than its place or stands outside of the window, and rows of tabs that scroll up and down. */
const wide = () => [
  ...[...document.querySelectorAll("[role=dialog], [role=alertdialog]")].map((e) => [e, e.getBoundingClientRect()]).filter(([, { left, right }]) => left < 0 || right > innerWidth).map(([e]) => `${e.className} stands outside`),
  ...[...document.querySelectorAll("[role=tablist]")].filter((e) => e.scrollHeight > e.clientHeight).map((e) => `tabs ${e.getAttribute("aria-label")} ${e.scrollHeight} in ${e.clientHeight}`),
  ...[...document.querySelectorAll(".table-card, main table, html")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => `${e.tagName}.${e.className} ${e.scrollWidth} in ${e.clientWidth}`),
];

async function test(title, run) {
  if (!only.some((part) => title.includes(part))) return;
  try {
    await page.setViewportSize(SIZES[0]);
    await run();
    console.log(`ok    ${title}`);
  } catch (error) {
    failed.push(title);
    console.log(`FAIL  ${title}: ${error.message}`);
    await take(page, "failed");
  }
}

/** A page as it is now, at each size: nothing scrolls sideways, and axe finds nothing. */
async function look(name, on = page) {
  for (const size of SIZES) {
    await on.setViewportSize(size);
    await on.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await take(on, `${name}-${size.width}`);
    await accessible(on, `${name} at ${size.width}`);
    assert.deepEqual(await on.evaluate(wide), [], `${name} at ${size.width} scrolls sideways`);
  }
  await on.setViewportSize(SIZES[0]);
}

const go = async (path, heading) => {
  await page.goto(server.base + path);
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
};
const tools = { assert, open: (options) => open(browser, options), page, server, test, look, go, signIn, take, wide, accessible };

try {
  const { members } = await import("./members.mjs");
  const { operators } = await import("./operators.mjs");
  await signIn();
  await test("the first load is under 300 kB", async () => {
    await go("/overview", "Overview");
    const bytes = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter(({ name }) => !name.includes("/api/")).reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0));
    console.log(`      ${bytes} bytes`);
    assert.ok(bytes < 300_000, `${bytes} bytes`);
  });
  await members(tools);
  await operators(tools);
  await enrolment(tools);
  await audit(tools);
  await roles(tools);
  await pages(tools);
  await tenants(tools);
  await suspension(tools);
  await names(tools);
  await dialogs(tools);
  await narrow(tools);
  await outside(tools);
  await reference(tools);
  await sweep(tools);
  await test("no page had a violation of the accessibility rules", () => assert.deepEqual(findings, []));
  await test("the API refused no filter", () => assert.deepEqual(server.refused, []));
  await test("no script failed and the content policy held", () => assert.deepEqual(page.faults, []));
} finally {
  server.stop();
  await browser.close();
}
process.exitCode = failed.length > 0 ? 1 : 0;

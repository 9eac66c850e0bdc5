// Whose session it is: pasted tokens, several tabs, and what a browser keeps of one user for the next.
import assert from "node:assert/strict";
import { BASE, page, signIn, signOut, test, tokenOf } from "./world.mjs";

const platform = page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Platform overview", exact: true });

async function paste(token) {
  await page.goto(BASE);
  await page.getByText("Use a token").click();
  await page.getByLabel("Token", { exact: true }).fill(token);
  await page.getByRole("button", { name: "Sign in with a token" }).click();
}

/** While nobody is signed in. */
export async function tokens() {
  await test("a pasted token shows what its owner may see, and a forged one is refused at once", async () => {
    const token = tokenOf("user");
    const [head, body] = token.split(".");
    await paste(`${head}.${body}.${"A".repeat(86)}`);
    await page.getByText("The server refused this token.").waitFor();
    await paste(token);
    await page.getByRole("navigation", { name: "Main" }).waitFor();
    assert.equal(await platform.count(), 0, "a member has no operator's menu");
    await signOut();
    await paste(tokenOf("admin"));
    await platform.waitFor();
    await signOut();
  });
}

/** After somebody launched with a key. */
export async function sharedBrowser() {
  await test("a new tab is signed in, and signing out ends the session in all tabs", async () => {
    await signOut();
    await signIn("user:demo");
    const other = await page.context().newPage();
    await other.goto(`${BASE}/usage`);
    await other.getByRole("heading", { level: 1, name: "Usage" }).waitFor();
    assert.equal(await other.title(), "Usage · GPUaaS");
    await other.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await other.close();
  });

  await test("the SSH keys of one user are not in the form of the next", async () => {
    const keys = page.getByLabel("SSH public keys");
    await signIn("user:demo");
    await page.goto(`${BASE}/launch`);
    await keys.waitFor();
    assert.match(await keys.inputValue(), /^ssh-ed25519 /);
    await signOut();
    await signIn("user:admin");
    await page.goto(`${BASE}/launch`);
    await keys.waitFor();
    assert.equal(await keys.inputValue(), "");
  });
}

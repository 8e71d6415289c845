// Uses the console as a person who signed in and has roles in several tenants.
import assert from "node:assert/strict";

// chooses switches from a tenant to the operator and back. keys has the key that stands for the session in
// each tenant, by the value of the header X-Tenant.
export async function chooses({ browser, url, keys, scheme, viewport }) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  const tenants = [{ tenant: "acme", role: "developer" }, { tenant: "", role: "admin" }];
  const chosen = (route) => route.request().headers()["x-tenant"] ?? (tenants[0].tenant || "@operator");
  await page.route(`${url}/v1/**`, (route) => route.continue({ headers: { ...route.request().headers(), authorization: `Bearer ${keys[chosen(route)]}` } }));
  await page.route(`${url}/v1/me`, (route) => {
    const me = tenants.find((t) => (t.tenant || "@operator") === chosen(route));
    return me ? route.fulfill({ json: { kind: "user", id: "ann", name: "Ann", scopes: [], ...me, tenants } }) : route.fulfill({ status: 403, json: {} });
  });
  await page.route(`${url}/auth`, (route) => route.fulfill({ json: { name: "Example", url: "/auth/sign-in" } }));

  await page.goto(`${url}/#/agents`);
  const choice = page.getByLabel("Tenant", { exact: true });
  await page.getByRole("link", { name: "archivist", exact: true }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Blocks", includeHidden: true }).count(), 0);
  const menu = page.getByRole("button", { name: "Menu", exact: true });
  if (await menu.isVisible()) await menu.click();
  await choice.selectOption("Operator (admin)");
  await page.getByRole("link", { name: "Blocks", includeHidden: true }).waitFor({ state: "attached" });
  await page.goto(`${url}/#/agents`);
  await page.getByText("No agents yet").waitFor();
  await page.keyboard.press("Control+K");
  await page.getByLabel("Search or jump to").fill("switch to acme");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Runs" }).waitFor();
  await page.getByRole("link", { name: "Blocks", includeHidden: true }).waitFor({ state: "detached" });

  tenants.shift(); // the role in the tenant ends
  await page.evaluate(() => sessionStorage.removeItem("agent-runner-key"));
  await page.reload();
  await page.getByRole("link", { name: "Blocks", includeHidden: true }).waitFor({ state: "attached" });
  await context.close();
}

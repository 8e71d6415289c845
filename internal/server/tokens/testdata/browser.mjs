// Opens the same page at two origins in Chromium, of which the server allows one. The script reads its input from stdin,
// and fails if a page does not do what it should.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const told = JSON.parse(readFileSync(0, "utf8"));
const { chromium } = createRequire(join(told.folder, "package.json"))("playwright-core");

const browser = await chromium.launch({ executablePath: told.chromium, args: ["--disable-gpu"] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(20000);
  page.on("pageerror", (e) => assert.fail(e.message));
  await page.goto(told.allowed);
  await page.waitForFunction(() => document.title === "stop");
  assert.match(await page.locator("body").innerText(), /Hello there, how are you\?/);

  const denied = await browser.newPage();
  denied.setDefaultTimeout(20000);
  const failed = denied.waitForEvent("pageerror");
  await denied.goto(told.other);
  assert.match((await failed).message, /Failed to fetch/);
  assert.equal(await denied.title(), "-");
} finally {
  await browser.close();
}

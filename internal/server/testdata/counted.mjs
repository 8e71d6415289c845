import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

// counted waits until a locator finds n elements. It fails after 20 seconds, since a list may still be loading.
export async function counted(locator, n) {
  for (const end = performance.now() + 20000; ; await sleep(20)) {
    const found = await locator.count();
    if (found === n) return;
    assert.ok(performance.now() < end, `${found} elements instead of ${n}: ${locator}`);
  }
}

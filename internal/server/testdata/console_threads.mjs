// Uses the pages of threads as a person would.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { counted } from "./counted.mjs";

// threads creates a thread, continues it with a question in between, changes it, finds it and deletes it.
export async function threads({ page, client, title, shot, scheme, open }) {
  const dialog = page.getByRole("dialog");
  const say = async (text) => {
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.keyboard.press("Control+Enter");
  };
  await open("Threads");
  await page.getByRole("button", { name: "New thread" }).first().click();
  await dialog.getByLabel("Agent").selectOption("archivist");
  await dialog.getByLabel("Title").fill(`Reports <b>${scheme}</b>`);
  await dialog.getByRole("button", { name: "Create" }).click();
  await title(`Reports <b>${scheme}</b>`);
  await page.getByText("No messages yet.").waitFor();

  await say("Please delete the report of 2019 for ann@example.com.");
  const talk = page.getByRole("region", { name: "Conversation" });
  await talk.getByText("May <em>reports/2019.txt</em> be deleted?").waitFor();
  await shot("thread-question", "thread-question");
  await page.reload(); // the question stays
  await talk.getByText("for ann@example.com.").waitFor();
  await talk.getByRole("button", { name: "Approve" }).click();
  await talk.getByText("finished, <i>as asked</i>").waitFor();
  await page.getByRole("region", { name: "Current run" }).waitFor({ state: "detached" });
  await talk.getByText("for [address].").waitFor(); // a module has replaced the address
  await say("What else is there?");
  await talk.getByText("Only the report of 2020; nothing else.").waitFor();
  await page.getByRole("region", { name: "Current run" }).waitFor({ state: "detached" });
  await talk.getByRole("listitem").filter({ hasText: /^Run of archivist v2finished.*tokens$/ }).nth(1).waitFor();
  await shot("thread", "thread");

  const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
  const lines = readFileSync(await saved.path(), "utf8").trim().split("\n").map((l) => JSON.parse(l));
  assert.equal(lines.at(-1).end, true);
  assert.deepEqual(lines.filter((l) => l.message).map((l) => l.message.message.role), ["user", "assistant", "tool", "assistant", "user", "assistant"]);

  // A fork has the messages up to one of them, and the thread stays as it is.
  await talk.getByText("deleted reports/2019.txt").hover();
  await page.getByRole("button", { name: "Fork from message 3" }).click();
  await page.getByText("This is the new thread.").waitFor();
  await page.locator(".facts").getByText("another thread").waitFor();
  await counted(talk.locator(".message"), 3);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete with its runs?" }).click();
  await title("Threads");
  await page.getByRole("link", { name: `Reports <b>${scheme}</b>` }).click();
  await title(`Reports <b>${scheme}</b>`);

  await talk.getByRole("link", { name: "Run of archivist v2" }).nth(1).click();
  await title("What else is there?");
  await page.getByRole("link", { name: "Thread", exact: true }).click();
  await title(`Reports <b>${scheme}</b>`);
  await page.getByRole("button", { name: "Edit" }).click();
  await dialog.getByLabel("Title").fill(`Archive, ${scheme}`);
  await dialog.getByLabel("A run that starts").selectOption({ label: "It waits for its turn" });
  await dialog.getByRole("button", { name: "Save" }).click();
  await title(`Archive, ${scheme}`);
  await page.locator(".facts").getByText("waits for its turn").waitFor();

  const stored = await client.request("get", "/v1/threads");
  assert.equal(stored.threads[0].concurrency, "queue");
  await client.request("post", "/v1/threads", { body: { agent: "archivist", title: `Order <i>1042</i> in ${scheme}`, subject: "ann", metadata: { customer: "42", channel: "<b>web</b>" } } });

  await open("Threads");
  await page.getByRole("link", { name: `Archive, ${scheme}` }).waitFor();
  await shot("threads", "threads");
  await page.getByLabel("Metadata").fill("customer:42");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: `Archive, ${scheme}` }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: `Order <i>1042</i> in ${scheme}` }).waitFor();
  await page.getByLabel("Metadata").fill("");
  await page.getByLabel("Agent").fill("clumsy");
  await page.keyboard.press("Enter");
  await page.getByText("No matching threads").waitFor();
  await page.getByRole("link", { name: "Show all threads" }).click();
  await page.getByRole("link", { name: `Archive, ${scheme}` }).click();
  await title(`Archive, ${scheme}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete with its runs?" }).click();
  await title("Threads");
  await page.getByRole("link", { name: `Archive, ${scheme}` }).waitFor({ state: "detached" });
}

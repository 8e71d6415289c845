// Uses the editor of agents as a person would who changes an agent that has runs.

// drafts configures a module with the form that its schema makes, and replays a run with a draft.
export async function drafts({ page, client, url, title, shot }) {
  for await (const e of client.stream({ agent: "archivist", input: "What else is there?" })) void e; // until the run has ended
  await page.goto(`${url}/#/edit/archivist`);
  await title("Edit archivist");
  await page.getByText("Valid · 2 modules").waitFor();
  const form = page.getByRole("region", { name: "Form" });
  const config = form.getByRole("group", { name: "Config" });
  await config.getByText("Hides these words, <b>too</b>.").waitFor();
  await config.getByLabel("Max").fill("99");
  await config.getByText("less than or equal to 10").waitFor(); // the form checks the value while the person types
  await config.getByLabel("Max").blur();
  await page.getByText("is greater than 10").waitFor(); // the server checks the file
  await config.getByLabel("Max").fill("3");
  await config.getByLabel("Mode").selectOption("remove");
  await config.getByText("Label", { exact: true }).click();
  await config.getByLabel("Text").fill("hidden");
  await config.getByLabel("Text").blur();
  await page.getByText("Valid · 2 modules").waitFor();
  const text = page.getByLabel("agent.yaml", { exact: true });
  await page.waitForFunction(() => /mode: remove\n\s+label:\n\s+text: hidden/.test(document.querySelector(".yaml-text").value));

  const dry = page.getByRole("region", { name: "Dry run" });
  const runs = dry.getByLabel("Recorded run");
  const option = runs.locator("option", { hasText: "What else is there?" }).first();
  await option.waitFor({ state: "attached" });
  await runs.selectOption(await option.getAttribute("value"));
  await dry.getByRole("button", { name: "Dry run" }).click();
  await dry.getByText("No change").waitFor();
  await text.fill("model: {name: small}\ninstruction: Be kind.\nmiddlewares:\n- module: asker\n");
  await dry.getByRole("button", { name: "Dry run" }).click();
  await dry.getByText("Other path").waitFor();
  await dry.locator(".diff del").first().waitFor();
  await page.getByText("Valid · 1 module").waitFor();
  await shot("dry-run", "dry-run");
  await text.fill("model: {name: small}\nmiddlewares: [{module: nothing}]\n");
  await dry.getByRole("button", { name: "Dry run" }).click();
  await dry.getByRole("alert").waitFor();
  await page.getByRole("link", { name: "Cancel" }).click();
  await title("archivist");
}

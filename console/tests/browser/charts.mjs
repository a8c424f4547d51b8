// The map of load and the time line, right after a split: what is marked, what is told of a place, which time is shown.
import { holds, quiet } from "./checks.mjs";

/**
 * @param {import("./checks.mjs").Checks} checks
 * @param {Awaited<ReturnType<typeof import("./page.mjs").openPage>>} opened
 * @param {(view: string) => Promise<void>} open
 */
export async function checkCharts(checks, { page, complaints, axe }, open) {
  await checks.check("the map of load marks a split, and is read by keyboard", async () => {
    await page.mouse.move(0, 0);
    // The map of load marks where and when, and can be read place by place.
    await page.locator(".map line.split").first().waitFor({ state: "attached" });
    const told = page.locator("#heat-cell", {
      hasText: /Marked, the last: shard \d+\s+(came by a split|went by a merge) at/,
    });
    await told.waitFor();
    const map = page.locator(".map");
    await map.focus();
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowDown");
    const cell = page.locator("#heat-cell", { hasText: /· shard \d+ ·/ });
    const [, shard] = /shard (\d+)/.exec(await cell.innerText()) ?? [];
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `Shard ${shard}`, exact: true }).waitFor();
    quiet(await axe());
  });

  await checks.check(
    "a span of the time line is picked, by pointer and by keyboard, and left again",
    async () => {
      await open("timeline");
      const chart = page.getByRole("img", { name: /^Requests a second/ });
      await chart.waitFor();
      const box = await chart.boundingBox();
      if (!box) throw new Error("the chart has no place");
      const y = box.y + box.height / 2;
      await page.mouse.move(box.x + box.width * 0.3, y);
      await page.mouse.down();
      await page.mouse.move(box.x + box.width * 0.8, y, { steps: 4 });
      await page.mouse.up();
      const follow = page.getByRole("button", { name: "Follow again" });
      await follow.waitFor();
      const address = new URL(page.url()).hash;
      holds(/from=\d+/.test(address) && /to=\d+/.test(address), `the address does not name it: ${address}`);
      quiet(await axe());
      await page.reload();
      await follow.click();
      await follow.waitFor({ state: "detached" });
      await chart.focus();
      await page.keyboard.press("Enter");
      for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowLeft");
      await page.keyboard.press("Enter");
      await follow.click();
      quiet(complaints());
    },
  );
}

// A person with a browser opens the page of a gateway. Run by page.rs, with playwright-core and Debian's Chromium.
//
//     page.js look URL FOLDER       the figures move; screenshots of both themes go into the folder
//     page.js console URL           subscribes and publishes by hand, and sees what curl publishes
//     page.js keyboard URL          the same without a mouse
//     page.js checks URL AXE        nothing that axe-core holds to be serious; weight; no request to other hosts
//     page.js locked URL KEY        a gateway with an admin key
//     page.js engine URL            shows the lag of the engine, that it is away, and its reconnects when it is back
//     page.js lost URL              says so when the gateway ends, and goes on with the next one

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

const PHONE = { width: 390, height: 844 };
const DESK = { width: 1440, height: 900 };
// For a machine that is busy with other tests.
const LIMIT = 60_000;

/** Opens the page, in a profile of its own. Collects its errors, and the requests that leave the gateway. */
async function open(browser, url, { viewport = DESK, colorScheme = "light", ...options } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, ...options });
  context.setDefaultTimeout(LIMIT);
  const page = await context.newPage();
  page.seen = { errors: [], strangers: [] };
  const note = (other) => {
    if (new URL(other).host !== new URL(url).host) page.seen.strangers.push(other);
  };
  context.on("request", (request) => note(request.url()));
  page.on("websocket", (socket) => note(socket.url()));
  page.on("pageerror", (error) => page.seen.errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.seen.errors.push(message.text()));
  await page.goto(url);
  return page;
}

function expectQuiet(page) {
  assert.deepEqual(page.seen, { errors: [], strangers: [] });
}

const text = (page, selector) => page.locator(selector).first().innerText();
const message = (page, what) => page.locator("#messages p").filter({ hasText: what });

/** Waits until a text of the page is another one. */
async function changes(page, selector) {
  const before = await text(page, selector);
  const differs = ([selector, before]) => document.querySelector(selector).innerText !== before;
  await page.waitForFunction(differs, [selector, before]);
}

async function look(browser, url, folder) {
  const page = await open(browser, url);
  const opened = performance.now();
  await page.waitForFunction(() => document.querySelector("#status-text").textContent === "Live");
  const [clients, rateIn, rateOut] = [1, 2, 3].map((at) => `#trends article:nth-child(${at}) .value`);
  await page.waitForFunction((it) => parseInt(document.querySelector(it).textContent) > 0, clients);
  await changes(page, rateIn);
  await changes(page, rateOut);
  await changes(page, "#loops article:first-child [data-of=turns]");
  const slow = page.locator("#slow tbody tr", { hasText: "demo: a call that blocks" });
  await slow.waitFor();
  await page.locator("#topics button", { hasText: "prices.eur-usd" }).waitFor();
  console.log(`seconds ${((performance.now() - opened) / 1000).toFixed(1)}`);
  assert.equal(await page.locator("#loops article").count(), 2);
  // The strips have something in them.
  await page.waitForFunction(() => [...document.querySelectorAll("canvas")].every((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size > 2;
  }));
  await page.locator("#subscribe button").first().click();
  await page.locator("#messages p").nth(3).waitFor();
  expectQuiet(page);
  // Enough for the plots of the pictures.
  await page.waitForTimeout(Number(process.env.PICTURE_AFTER_MS ?? 3000));
  await pictures(page, folder, "wide");
  await page.setViewportSize(PHONE);
  const overflow = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return scrollWidth - clientWidth;
  });
  assert.ok(overflow <= 0, `the page is ${overflow} pixels wider than the phone`);
  await pictures(page, folder, "phone");
}

async function pictures(page, folder, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: path.join(folder, `${name}-${colorScheme}.png`), fullPage: true });
    await page.screenshot({ path: path.join(folder, `${name}-${colorScheme}-first.png`) });
  }
}

function curl(...args) {
  return execFileSync("curl", ["--silent", "--show-error", "--fail", "--max-time", "30", ...args], { encoding: "utf8" });
}

async function useConsole(browser, url) {
  const page = await open(browser, url);
  await page.fill("#filter", "from.>");
  await page.click("#subscribe button");
  await message(page, "Subscribed to from.>").waitFor();
  curl("-H", "content-type: application/json", "--data-binary", '{"greeting":"from curl"}', `${url}topics/from.curl`);
  await message(page, '{"greeting":"from curl"}').waitFor();
  // The command that the page shows is one that works.
  await page.fill("#topic", "from.the-page's command");
  await page.fill("#message", "it's \"text\"");
  const shown = await text(page, "#curl");
  assert.throws(() => execFileSync("sh", ["-c", `${shown} --fail --silent`]), "a topic has no space");
  await page.fill("#topic", "from.<b>'s");
  execFileSync("sh", ["-c", `${await text(page, "#curl")} --fail --silent --max-time 30`]);
  await message(page, "from.<b>'s it's \"text\"").waitFor();
  // What the page publishes comes back to it, and to others.
  await page.fill("#topic", "from.page");
  await page.fill("#message", '{"greeting":"from the page"}');
  await page.click("#publish button");
  await message(page, "from.page").waitFor();
  assert.match(await text(page, "#published"), /^Published at /);
  const { publications } = JSON.parse(curl(`${url}api/history?topic=from.page`));
  assert.deepEqual(publications.map(({ data }) => data), [{ greeting: "from the page" }]);
  await stranger(page, url);
  // A refusal is told where the command was given.
  await page.fill("#topic", "a.*");
  await page.click("#publish button");
  await page.waitForFunction(() => document.querySelector("#published").className === "bad");
  expectQuiet(page);
}

/** Topics, users, messages and slow work are text, whatever they look like. */
async function stranger(page, url) {
  const bad = "<script>document.title='taken'</script><img/src=x\u00a0onerror=alert(1)>".replace(/[\s.]/g, "_");
  const topic = encodeURIComponent("<script>");
  curl("--data-binary", bad, "-H", "content-type: text/plain", `${url}topics/from.${topic}`);
  await message(page, bad).waitFor();
  await page.locator("#topics button", { hasText: "from.<script>" }).waitFor();
  await page.locator("#topics button", { hasText: "from.<script>" }).click();
  assert.equal(await page.inputValue("#topic"), "from.<script>");
  assert.equal(await page.inputValue("#filter"), "from.<script>");
  assert.equal(await page.locator("body script, img").count(), 0);
  assert.equal(await page.title(), "Waterwheel gateway");
}

/** Presses Tab until an element has the focus; each one on the way must show it. */
async function tabTo(page, selector) {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate((selector) => {
      const element = document.activeElement;
      const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
      const shown = (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
      return { is: element.matches(selector), shown, name: element.id || element.className || element.tagName };
    }, selector);
    assert.ok(at.shown, `the focus on ${at.name} is seen`);
    if (at.is) return;
  }
  assert.fail(`no Tab leads to ${selector}`);
}

async function keyboard(browser, url) {
  const page = await open(browser, url);
  await page.waitForFunction(() => document.querySelector("#status-text").textContent === "Live");
  await page.keyboard.press("Tab");
  await page.waitForFunction(() => document.activeElement.className === "skip");
  await tabTo(page, "#theme");
  await page.keyboard.type("Dark");
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await page.reload();
  await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.id === "console");
  await tabTo(page, "#filter");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("keys.*");
  await page.keyboard.press("Enter");
  await message(page, "Subscribed to keys.*").waitFor();
  await tabTo(page, "#topic");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("keys.pressed");
  await tabTo(page, "#message");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("without a mouse");
  await tabTo(page, "#publish button");
  await page.keyboard.press("Enter");
  await message(page, "without a mouse").waitFor();
  await tabTo(page, "#messages");
  // Back up: the subscription ends, and the focus is not lost.
  await page.focus("#subscriptions button");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => document.activeElement.id === "filter");
  await page.locator("#subscriptions li").waitFor({ state: "detached" });
  // A topic of the table fills the console in.
  await page.focus("#topics button");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.id === "filter");
  assert.equal(await page.inputValue("#topic"), "keys.pressed");
  expectQuiet(page);
}

async function checks(browser, url, axe) {
  const source = readFileSync(axe, "utf8");
  for (const viewport of [DESK, PHONE]) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open(browser, url, { viewport, colorScheme });
      await page.locator("#slow tbody tr").first().waitFor();
      await page.click("#subscribe button");
      await page.locator("#messages p").first().waitFor();
      // Evaluated by the browser: the page itself permits no script but its own.
      await page.evaluate(source);
      const { violations, passes } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      const told = violations.map(({ id, impact, help, nodes }) => `${impact} ${id}: ${help}: ${nodes[0].html}`);
      const serious = told.filter((line) => /^(serious|critical)/.test(line));
      assert.deepEqual(serious, [], `${viewport.width} ${colorScheme}`);
      assert.ok(passes.length > 20, "axe has looked at the page");
      if (told.length > 0) console.log(told.join("\n"));
      expectQuiet(page);
      await page.context().close();
    }
  }
  await weigh(browser, url);
}

async function weigh(browser, url) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const bodies = [];
  page.on("response", (response) => {
    if (!response.url().endsWith("/api/live")) bodies.push(response.body().then(({ length }) => length));
  });
  await page.goto(url);
  await page.waitForFunction(() => document.querySelector("#status-text").textContent === "Live");
  const sizes = await Promise.all(bodies);
  console.log(`files ${sizes.length}`);
  console.log(`bytes ${sizes.reduce((sum, size) => sum + size, 0)}`);
}

async function locked(browser, url, key) {
  const page = await open(browser, url);
  await page.locator("#key-form").waitFor();
  await page.fill("#key", "not the key of the gateway");
  await page.keyboard.press("Enter");
  await page.locator("#key-error", { hasText: "does not accept this key" }).waitFor();
  await page.fill("#key", key);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#status-text").textContent === "Live");
  await page.click("#subscribe button");
  await message(page, "Subscribed to >").waitFor();
  // Kept for this tab, and not in an address.
  await page.reload();
  await page.waitForFunction(() => document.querySelector("#status-text").textContent === "Live");
  assert.ok(!page.url().includes(key));
  // A browser reports each answer that refuses, as the key that was wrong.
  assert.ok(page.seen.errors.every((error) => /40[13]/.test(error)), String(page.seen.errors));
  assert.deepEqual(page.seen.strangers, []);
}

async function engine(browser, url) {
  const page = await open(browser, url);
  const tile = page.locator("#tiles div").filter({ has: page.locator("dt", { hasText: "Engine" }) }).locator("dd");
  const shows = (what) => tile.filter({ hasText: what }).waitFor();
  await shows(/^redislag [\d.<]+ (µs|ms|s), reconnects 0, connected to /);
  console.log("lag");
  // A second of lag: the engine is still there.
  await shows(/^redislag [\d.]+ s, reconnects 0, /);
  await shows(/^away/);
  console.log("away");
  await shows(/^redislag [\d.<]+ (µs|ms|s), reconnects 1, /);
  console.log("back");
  expectQuiet(page);
}

async function lost(browser, url) {
  const page = await open(browser, url);
  await page.click("#subscribe button");
  await message(page, "Subscribed to >").waitFor();
  const gap = "some older messages are no longer in the history";
  assert.equal(await message(page, gap).count(), 0, "nothing is missing");
  console.log("subscribed");
  await page.locator("#status-text", { hasText: "Not connected" }).waitFor();
  console.log("lost");
  await page.waitForFunction(() => document.querySelector("#status-text").textContent === "Live");
  await message(page, gap).waitFor();
  await message(page, "of the next gateway").waitFor();
  console.log("live again");
}

async function main([mode, url, argument]) {
  // Root may not use the sandbox, and these pages are ours.
  const args = ["--no-sandbox", "--disable-gpu", "--no-proxy-server"];
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args, timeout: LIMIT });
  try {
    await { look, console: useConsole, keyboard, checks, engine, locked, lost }[mode](browser, url, argument);
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

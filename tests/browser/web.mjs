// Every page and flow of the web interface, in Debian's Chromium. Prints one line a check; the first that fails ends the run.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { chromium } from "playwright-core";
import { AxeBuilder } from "@axe-core/playwright";

const work = process.env.LASTBIT_WORK;
const address = (name) => `http://${JSON.parse(fs.readFileSync(path.join(work, `${name}.json`))).address}`;
const [full, empty, people] = ["full", "empty", "people"].map(address);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1200, height: 850 } });
const page = await context.newPage();
const complaints = [];
page.on("console", (m) => { if (m.type() === "error") complaints.push(m.text()); });
page.on("pageerror", (e) => complaints.push(String(e)));
let passed = 0;
const check = async (name, work) => {
  await work();
  passed += 1;
  console.log(`ok ${name}`);
};
const text = async (selector) => (await page.locator(selector).first().textContent()).trim();

await check("a watched folder appears", async () => {
  for (let i = 0; i < 60; i++) {
    await page.goto(full);
    if (await page.locator("tbody th a", { hasText: "honest" }).count()) break;
    await page.waitForTimeout(500);
  }
  assert.equal(await page.locator("#runs tbody tr").count(), 9);
});
const href = async (name) => `${full}${await page.locator("#runs tbody th a", { hasText: name }).getAttribute("href")}`;
const runs = { weight: await href("a-weight-bit"), honest: await href("honest"), swap: await href("d-token-swap"), edited: await href("g-edited-log") };

await check("filtering by verdict changes the list and the address", async () => {
  await page.selectOption("#verdict", "ERROR");
  await page.waitForURL(/verdict=ERROR/);
  await page.waitForFunction(() => document.querySelectorAll("#runs tbody tr").length === 1);
});
await check("the first divergence is two clicks away, with both bit patterns", async () => {
  await page.goto(full);
  await page.click("text=a-weight-bit");
  await page.click("#records tbody th a");
  assert.equal(await text("#first"), "First difference");
  const bits = await text(".bits");
  assert.match(bits, /3f78/);
  assert.match(bits, /3f79/);
  assert.ok((await page.locator(".stream .tk.out").count()) > 50, "tokens coloured by margin");
  assert.ok(await page.locator(".chart svg title").count() >= 3, "charts have titles");
});
await check("a swapped token is flagged", async () => {
  await page.goto(`${runs.swap}/records/0`);
  assert.equal(await page.locator(".stream .tk.bad").count(), 1);
});
await check("the browser verifies the signature itself", async () => {
  await page.goto(runs.weight);
  await page.click("text=Check in this browser");
  await page.waitForFunction(() => document.querySelector(".said").textContent.includes("Checked in this browser"));
  assert.match(await text(".said"), /Ed25519 signature .* verifies under the key/);
});
await check("the browser verifies an inclusion proof itself", async () => {
  await page.goto(`${full}/logs`);
  await page.click("tbody th a >> text=honest");
  await page.click("#entries ~ .scroll tbody th a");
  await page.click("text=Check in this browser");
  await page.waitForFunction(() => document.querySelector(".said").textContent.includes("entry 0 is in the tree"));
});
await check("an audit runs, is watched, and ends in a signed result", async () => {
  await page.goto(`${full}/logs`);
  await page.click("tbody th a >> text=honest");
  await page.click("text=Audit this log now");
  await page.waitForURL(/\/audits\/1$/);
  await page.waitForSelector("text=The signed result", { timeout: 120_000 });
  await page.click("text=The signed result");
  assert.match(await text(".finding"), /MATCH/);
});
await check("two audits are compared", async () => {
  await page.goto(`${full}/compare?a=${runs.honest.split("/").pop()}&b=${runs.weight.split("/").pop()}`);
  assert.ok((await page.locator("tr.other").count()) > 2);
});
await check("search finds digests by their beginning, and findings by words", async () => {
  const digest = runs.weight.split("/").pop();
  for (const q of [digest.slice(0, 8), "down_proj"]) {
    await page.goto(`${full}/search?q=${q}`);
    assert.ok((await page.locator(".hits li").count()) > 0, q);
  }
});
await check("exports are files", async () => {
  for (const format of ["oscal", "cyclonedx", "sarif", "junit", "csv"]) {
    const answer = await page.request.get(`${full}/api/v1/runs/${runs.weight.split("/").pop()}/exports/${format}`);
    assert.equal(answer.status(), 200);
    assert.match(answer.headers()["content-disposition"], /^attachment/);
  }
});
const pages = ["/", new URL(runs.weight).pathname, `${new URL(runs.weight).pathname}/records/0`, `${new URL(runs.weight).pathname}/crosswalk`, "/logs", "/fingerprints", "/inventory", "/keys", "/compare", "/search?q=a", "/upload", "/audits", "/access", "/reference"];
await check("axe finds nothing serious on any page, in light and dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const where of pages) {
      await page.goto(full + where);
      const { violations } = await new AxeBuilder({ page }).analyze();
      const serious = violations.filter((v) => ["serious", "critical"].includes(v.impact));
      assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes[0].html} ${v.nodes[0].failureSummary}`), [], `${where} ${colorScheme}`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
});
await check("every page fits a width of 360 px", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  for (const where of pages) {
    await page.goto(full + where);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 360, `${where}: ${wide}`);
  }
  await page.setViewportSize({ width: 1200, height: 850 });
});
await check("the keyboard reaches content and navigation", async () => {
  await page.goto(full);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "content");
  for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement.closest("#runs tbody"))); i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/runs\//);
});
await check("every page reads with scripts off", async () => {
  const plain = await browser.newContext({ javaScriptEnabled: false });
  const quiet = await plain.newPage();
  for (const where of pages) {
    await quiet.goto(full + where);
    assert.ok((await quiet.locator("main h1").count()) === 1, where);
  }
  await quiet.goto(full);
  await quiet.selectOption("#verdict", "ERROR");
  await quiet.click(".filter button");
  assert.equal(await quiet.locator("#runs tbody tr").count(), 1);
  await plain.close();
});
await check("pages print", async () => {
  for (const where of [runs.weight, `${runs.weight}/records/0`]) {
    await page.goto(where);
    for (const format of ["A4", "Letter"]) assert.ok((await page.pdf({ format })).length > 10_000);
  }
});
await check("pages are light", async () => {
  for (const where of pages) {
    const fresh = await browser.newContext();
    const tab = await fresh.newPage();
    const bodies = [];
    tab.on("response", (r) => bodies.push(r.body().then((body) => body.length, () => 0)));
    await tab.goto(full + where, { waitUntil: "networkidle" });
    const bytes = (await Promise.all(bodies)).reduce((sum, n) => sum + n, 0);
    assert.ok(bytes < 200 * 1024, `${where}: ${bytes}`);
    const paint = await tab.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    console.log(`   ${where}: ${(bytes / 1024).toFixed(0)} KiB, first paint ${paint?.toFixed(0)} ms`);
    await fresh.close();
  }
});
await check("a bundle is handed in, held, and read once its key is trusted", async () => {
  await page.goto(`${empty}/upload`);
  const files = ["audits/honest.audit.json", "audits/a-weight-bit.audit.json", "keys/auditor.pub"].map((f) => path.join(work, "demo", f));
  await page.setInputFiles("#file", files);
  await page.click("button.do");
  assert.match(await text("[role=status]"), /1 taken, 2 held/);
  await page.goto(`${empty}/keys`);
  await page.click("text=Trust this key");
  await page.goto(empty);
  assert.equal(await page.locator("#runs tbody tr").count(), 2);
});
await check("a stored bundle that was tampered with is refused", async () => {
  const name = (await page.locator("#runs tbody th a").first().getAttribute("href")).split("/").pop();
  const stored = path.join(work, "empty", "blobs", name.slice(0, 2), name);
  const bytes = fs.readFileSync(stored);
  bytes[100] ^= 1;
  fs.writeFileSync(stored, bytes);
  const answer = await page.goto(`${empty}/runs/${name}`);
  assert.equal(answer.status(), 409);
  assert.match(await text("main"), /Refused/);
});
await check("people sign in, forbidden things are forbidden, people sign out", async () => {
  await page.goto(`${people}/keys`);
  assert.match(page.url(), /\/login\?to=/);
  const signIn = async (name, password) => {
    await page.fill("#name", name);
    await page.fill("#password", password);
    await page.click("button.do");
  };
  await signIn("viewer", "not the password");
  assert.match(await text("[role=alert]"), /wrong/);
  await signIn("viewer", "viewer has a long password");
  assert.equal(new URL(page.url()).pathname, "/keys");
  for (const where of ["/upload", "/access"]) assert.equal((await page.goto(people + where)).status(), 403);
  await page.goto(people);
  await page.click("text=Sign out");
  assert.equal((await page.goto(people)).url(), `${people}/login?to=/`);
  await signIn("admin", "admin has a long password");
  assert.equal((await page.goto(`${people}/access`)).status(), 200);
  assert.match(await text("#trail ~ .scroll"), /sign in/);
});
await check("the report verifies its own signed bytes, from a file", async () => {
  await page.goto(`file://${path.join(work, "demo", "report.html")}`);
  await page.locator(".recheck button").first().click();
  await page.waitForFunction(() => document.querySelector(".said").textContent.includes("Checked in this browser"));
});
if (fs.existsSync(path.join(work, "many.json"))) await check("first paint with many records", async () => {
  const many = address("many");
  const there = async () => (await (await page.request.get(`${many}/api/v1/overview`)).json()).records;
  while ((await there()) < 100_000) await page.waitForTimeout(1000);
  const run = (await (await page.request.get(`${many}/api/v1/runs`)).json()).items[0].digest;
  for (const where of ["/", `/runs/${run}`, `/runs/${run}?verdict=MISMATCH`, `/runs/${run}/records/500`, "/search?q=record+99"]) {
    await page.goto(many + where, { waitUntil: "networkidle" });
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    console.log(`   ${where}: first paint ${paint?.toFixed(0)} ms with ${await there()} records`);
  }
});
const expected = /status of (401|403|409)/;
await check("no page complained", async () => assert.deepEqual(complaints.filter((c) => !expected.test(c)), []));

if (process.argv.includes("--screenshots")) {
  const out = process.env.LASTBIT_DOCS;
  fs.mkdirSync(out, { recursive: true });
  const shots = { overview: "/", audit: new URL(runs.weight).pathname, record: `${new URL(runs.weight).pathname}/records/0`, log: "/logs", keys: "/keys", crosswalk: `${new URL(runs.weight).pathname}/crosswalk` };
  for (const [name, where] of Object.entries(shots)) {
    await page.goto(full + where);
    const file = path.join(out, `${name}.png`);
    await page.screenshot({ path: file, clip: { x: 0, y: 0, width: 1200, height: name === "record" || name === "overview" ? 1500 : 1000 }, fullPage: true });
    console.log(`wrote ${file}`);
  }
}
await browser.close();
console.log(`${passed} passed, 0 failed`);

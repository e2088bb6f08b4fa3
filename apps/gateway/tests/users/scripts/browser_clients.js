// Pages in Chromium that use the gateway without being its own page.
//
//     browser_clients.js events URL FILTER    EventSource on a page of the gateway's host; input and output are those of
//                                             python_client.py, but it finds back by itself
//     browser_clients.js origins              a page of another host; prints its origin, then for each URL that it reads
//                                             what each way to use the gateway came to

const http = require("node:http");
const readline = require("node:readline");
const { chromium } = require("playwright-core");

const LIMIT = 60_000;
const input = readline.createInterface({ input: process.stdin });

async function events(page, url, filter) {
  await page.exposeFunction("tell", (line) => console.log(line));
  await page.goto(`${url}healthz`);
  await page.evaluate((filter) => {
    let source;
    let last;
    window.enter = () => {
      source = new EventSource(`/events?topic=${encodeURIComponent(filter)}${last ? `&since=${last}` : ""}`);
      const keep = (event) => last = event.lastEventId || last;
      source.addEventListener("open", (event) => {
        if (!event.data) return; // That of the connection, not of the gateway.
        keep(event);
        tell(`subscribed gap=${JSON.parse(event.data).gap}`);
      });
      source.onmessage = (event) => {
        keep(event);
        tell(`message ${JSON.parse(event.data).text}`);
      };
      let isLost = false;
      source.onopen = () => isLost = false;
      source.onerror = () => {
        if (!isLost) tell("lost");
        isLost = true;
      };
    };
    window.leave = () => {
      source.close();
      tell("left");
    };
    window.publish = async (topic, text) => {
      const { ok } = await fetch(`/topics/${topic}`, { method: "POST", body: text });
      tell(ok ? "published" : "error");
    };
    enter();
  }, filter);
  for await (const line of input) {
    const [command, topic, ...words] = line.split(" ");
    if (command === "publish") await page.evaluate(([topic, text]) => publish(topic, text), [topic, words.join(" ")]);
    if (command === "leave") await page.evaluate(() => leave());
    if (command === "return") await page.evaluate(() => enter());
  }
}

async function origins(page) {
  const server = http.createServer((_, response) => response.setHeader("content-type", "text/html").end("<!doctype html>"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://localhost:${server.address().port}`;
  await page.goto(origin);
  console.log(origin);
  for await (const url of input) {
    const results = await page.evaluate(async (url) => {
      const attempt = (promise) => promise.then(({ status }) => String(status), () => "refused");
      const post = (headers) => fetch(`${url}topics/pages`, { method: "POST", body: "1", headers });
      const opens = (target) => new Promise((resolve) => {
        target.onopen = () => {
          resolve("open");
          target.close();
        };
        target.onerror = () => resolve("refused");
      });
      return {
        get: await attempt(fetch(`${url}api/history?topic=pages`)),
        simplePost: await attempt(post({ "content-type": "text/plain" })),
        blindPost: await fetch(`${url}topics/pages`, { method: "POST", body: "1", mode: "no-cors" }).then(({ type }) => type),
        preflightPost: await attempt(post({ "content-type": "application/json" })),
        key: await attempt(fetch(`${url}api/topics`, { headers: { authorization: "Bearer a-guess" } })),
        events: await opens(new EventSource(`${url}events?topic=pages`)),
        webSocket: await opens(new WebSocket(`${url.replace("http", "ws")}ws`)),
      };
    }, url);
    console.log(JSON.stringify(results));
  }
  server.close();
  server.closeAllConnections();
}

async function main([mode, ...rest]) {
  // Root may not use the sandbox, and these pages are ours.
  const args = ["--no-sandbox", "--disable-gpu", "--no-proxy-server"];
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args, timeout: LIMIT });
  try {
    await { events, origins }[mode](await browser.newPage(), ...rest);
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

// Chromium at the other end of a connection, driven by playwright-core.
//
//     chromium_peer.js client URL      a page talks to the echo server of the tests
//     chromium_peer.js chat URL        two pages of the example ws_chat chat with each other

const path = require("node:path");
const { chromium } = require("playwright-core");

async function client(browser, url) {
  const page = await browser.newPage();
  await page.addScriptTag({ path: path.join(__dirname, "talk.js") });
  const lines = await page.evaluate(async (url) => {
    const open = () => connect((protocols) => new WebSocket(url, protocols));
    const peer = await open();
    await talk(peer);
    // A page sees no pings; the server notes the pong.
    peer.socket.send("ping");
    peer.socket.send("behind the pong");
    const behind = await peer.next();
    peer.socket.close(4001, "good bye");
    const first = await peer.closed;
    const other = await open();
    other.socket.send("close 4002 enough");
    const second = await other.closed;
    const { extensions, protocol } = peer.socket;
    return [
      `${behind}; ${extensions.split(";")[0]}; ${protocol}`,
      `${first.code} ${first.reason} ${first.wasClean}`,
      `${second.code} ${second.reason} ${second.wasClean}`,
    ];
  }, url);
  lines.forEach((line) => console.log(line));
}

async function chat(browser, url) {
  const open = async (name) => {
    const page = await browser.newPage();
    await page.goto(url);
    const shows = (text) => page.waitForFunction((text) => lines.textContent.includes(text), text);
    const say = async (text) => {
      await page.fill("#line", text);
      await page.press("#line", "Enter");
    };
    await shows("What is your name?");
    await say(name);
    await shows(`* ${name} is here`);
    return { page, shows, say };
  };
  const anna = await open("Anna");
  const berta = await open("Berta");
  await anna.shows("* Berta is here");
  await anna.say("Grüße, 漢字");
  await berta.shows("Anna: Grüße, 漢字\n");
  await berta.say("<b>hello</b>");
  await anna.shows("Berta: <b>hello</b>\n");
  await berta.page.close();
  await anna.shows("* Berta has gone");
  console.log("chatted");
  // The test ends the server now.
  await anna.shows("closed: 1001");
  console.log(await anna.page.textContent("#lines"));
}

async function main([mode, url]) {
  // Root may not use the sandbox, and these pages are ours.
  const args = ["--no-sandbox", "--disable-gpu", "--no-proxy-server"];
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args });
  try {
    await (mode === "client" ? client : chat)(browser, url);
  } finally {
    await browser.close();
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

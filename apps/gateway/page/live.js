// The stream of snapshots from /api/live. EventSource cannot send a header, and a key does not belong in an address.

const RETRY_MS = 2000;
const SILENCE_MS = 5000;

/** Reads server-sent events from a response, and calls `onEvent(name, data)` with each. */
async function readEvents(response, onEvent, onBytes) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onBytes();
    const events = (rest + value).split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      let name = "message";
      const data = [];
      for (const line of event.split(/\r?\n/)) {
        if (line.startsWith("event:")) name = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length > 0) onEvent(name, data.join("\n"));
    }
  }
}

/**
 * Follows the gateway for as long as the page is open. Calls
 *   onSnapshot(snapshot)   each second
 *   onLost(reason)         when the stream ended; it is opened again
 *   onKeyNeeded(refused)   when a key is needed; resolves to one
 */
export async function follow({ key, onSnapshot, onLost, onKeyNeeded }) {
  for (;;) {
    const abort = new AbortController();
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE_MS);
    };
    let reason = "the gateway has ended the stream";
    try {
      const headers = key ? { Authorization: `Bearer ${key}` } : {};
      const response = await fetch("/api/live", { headers, signal: abort.signal, cache: "no-store" });
      if (response.status === 401 || response.status === 403) {
        response.body?.cancel();
        key = await onKeyNeeded(Boolean(key));
        continue;
      }
      if (!response.ok) throw new Error(await refusal(response));
      heard();
      await readEvents(response, (name, data) => name === "snapshot" && onSnapshot(JSON.parse(data)), heard);
    } catch (error) {
      reason = abort.signal.aborted ? "nothing was heard for 5 seconds" : error.message;
    } finally {
      clearTimeout(silence);
    }
    onLost(reason);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** Why the gateway has refused. */
async function refusal(response) {
  const { error } = await response.json().catch(() => ({}));
  return error?.message ?? `the gateway answers ${response.status}`;
}

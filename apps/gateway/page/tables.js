// The tables of topics and of slow work. Rows and cells are reused, so that focus, selection and scrolling stay.

import { $, make, setText } from "./dom.js";
import { count, duration, micros, rate } from "./format.js";

/** Shows the topics of a snapshot. A click on one calls `choose` with its name. */
export function showTopics({ topics, listedTopics, moreTopics }, choose) {
  $("topics-empty").hidden = topics.length > 0;
  const among = moreTopics ? ` of the first ${count(listedTopics)} by name` : ` of ${count(listedTopics)}`;
  setText($("topics-more"), moreTopics || listedTopics > topics.length ? `the ${topics.length} busiest${among}` : "");
  const most = Math.max(1, ...topics.map((topic) => topic.rate));
  showRows($("topics").tBodies[0], topics, (cells, topic) => {
    const button = cells[0].firstChild ?? cells[0].appendChild(make("button"));
    button.type = "button";
    button.onclick = () => choose(button.textContent);
    setText(button, topic.topic);
    cells[1].className = "bar";
    cells[1].style.setProperty("--share", Math.round((100 * topic.rate) / most));
    setText(cells[1], rate(topic.rate));
    setText(cells[2], count(topic.subscribers));
    setText(cells[3], count(topic.published));
    setText(cells[4], count(topic.history));
  }, 5);
}

/** Shows the work that has held a loop. */
export function showSlow({ slow, slowLimit }) {
  $("slow-empty").hidden = slow.length > 0;
  setText($("slow-limit"), slowLimit ? `longer than ${micros(slowLimit)}` : "the watchdog is off");
  showRows($("slow").tBodies[0], slow, (cells, work) => {
    if (!cells[0].firstChild) cells[0].append(make("span"), make("small"));
    setText(cells[0].firstChild, work.what);
    setText(cells[0].lastChild, work.loop);
    setText(cells[1], micros(work.micros));
    setText(cells[2], count(work.times));
    setText(cells[3], work.isOver ? `${duration(work.ago)} ago` : "still running");
  }, 4);
}

function showRows(body, items, fill, columns) {
  while (body.rows.length > items.length) body.deleteRow(-1);
  items.forEach((item, at) => {
    const row = body.rows[at] ?? body.insertRow();
    while (row.cells.length < columns) row.insertCell();
    fill(row.cells, item);
  });
}

"use strict";

const at = (id) => document.getElementById(id);
const key = () => at("key").value || sessionStorage.getItem("key") || "";
const headers = () => (key() ? { Authorization: `Bearer ${key()}` } : {});
at("key").addEventListener("change", () => sessionStorage.setItem("key", at("key").value));

// An element with a text in it: whatever the text says, it stays text.
function element(tag, text = "", name = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = name;
  return made;
}

// Widths are set through the style object, which the content security policy allows.
function bar(request) {
  const made = element("div", "", "bar");
  for (const name of ["prefix", "relayed"]) {
    const part = element("i", "", name);
    part.style.width = `${(100 * request[`${name}_tokens`]) / Math.max(request.prompt_tokens, 1)}%`;
    made.append(part);
  }
  return made;
}

function row(request) {
  const made = element("tr", "", request.state);
  const taken = request.prefix_tokens + request.relayed_tokens;
  const share = request.prompt_tokens ? Math.round((100 * taken) / request.prompt_tokens) : 0;
  const reuse = element("td", request.prompt_tokens ? `${taken} (${share} %)` : "");
  reuse.title = `${request.prefix_tokens} in place, ${request.relayed_tokens} relayed`;
  if (request.prompt_tokens) reuse.append(bar(request));
  const text = element("td", request.text.replace(/\s+/g, " ").slice(-80));
  text.title = request.text;
  made.append(
    element("td", request.state),
    element("td", request.prompt_tokens || ""),
    reuse,
    element("td", request.ttft_ms ? `${Math.round(request.ttft_ms)} ms` : ""),
    element("td", request.generated_tokens || ""),
    text,
  );
  return made;
}

async function refresh() {
  try {
    const answer = await fetch("relay/requests", { headers: headers() });
    at("key-row").hidden = answer.status !== 401 && !key();
    if (!answer.ok) {
      at("totals").textContent = (await answer.json()).error.message;
    } else {
      const now = await answer.json();
      const taken = now.totals.prefix_tokens + now.totals.relayed_tokens;
      at("model").textContent = `${now.model}, ${now.n_ctx} tokens of context`;
      at("totals").textContent =
        `requests: ${now.totals.requests}, waiting: ${now.n_queued}; prompt tokens taken over: ${taken} of ${now.totals.prompt_tokens}`;
      at("requests").replaceChildren(...now.requests.slice().reverse().map(row));
      at("none").hidden = now.requests.length > 0;
    }
  } catch {
    at("totals").textContent = "the server does not answer";
  }
  setTimeout(refresh, document.hidden ? 5000 : 500);
}

let messages = [];
let running = null;

function say(text, name) {
  const made = element("p", text, name);
  at("chat").append(made);
  at("chat").scrollTop = at("chat").scrollHeight;
  return made;
}

// The data of each event of the stream.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice(6));
  }
}

async function ask(text) {
  const said = messages;
  said.push({ role: "user", content: text });
  say(text, "user");
  const shown = say("", "assistant");
  running = new AbortController();
  at("send").hidden = !(at("stop").hidden = false);
  let answer = "";
  try {
    const response = await fetch("v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers() },
      body: JSON.stringify({ messages: said, stream: true, stream_options: { include_usage: true } }),
      signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const chunk of events(response.body)) {
      if (chunk.error) throw new Error(chunk.error.message);
      answer += chunk.choices[0]?.delta.content ?? "";
      shown.textContent = answer;
      at("chat").scrollTop = at("chat").scrollHeight;
      if (chunk.relay) {
        const { prefix, relayed, prompt_tokens } = chunk.relay;
        say(`${prefix + relayed} of ${prompt_tokens} prompt tokens taken over, ${chunk.usage.completion_tokens} written`, "note");
      }
    }
  } catch (error) {
    say(error.name === "AbortError" ? "stopped" : error.message, "error");
  }
  if (answer) said.push({ role: "assistant", content: answer });
  running = null;
  at("stop").hidden = !(at("send").hidden = false);
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("say").value.trim();
  if (!text || running) return;
  at("say").value = "";
  ask(text);
});
at("say").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("form").requestSubmit();
  }
});
at("stop").addEventListener("click", () => running?.abort());
at("new").addEventListener("click", () => {
  running?.abort();
  messages = [];
  at("chat").replaceChildren();
});
refresh();

"""The page at /docs: reads /openapi.json and shows it, from this server alone.

The usual documentation pages load their scripts from elsewhere; a private endpoint should not.
"""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>stoker API</title>
<style>
  :root { color-scheme: light dark; --line: #8885; --soft: #8882; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
  h1 small { font-size: 1rem; font-weight: normal; }
  details { border: 1px solid var(--line); border-radius: .4rem; margin: .5rem 0; padding: .4rem .8rem; }
  summary { cursor: pointer; }
  code, pre, textarea { font: 14px/1.45 ui-monospace, monospace; }
  summary b { display: inline-block; min-width: 4rem; }
  table { border-collapse: collapse; width: 100%; }
  td { border-top: 1px solid var(--line); padding: .3rem .5rem .3rem 0; vertical-align: top; }
  td:nth-child(2) { opacity: .75; }
  textarea { width: 100%; box-sizing: border-box; min-height: 8rem; }
  pre { background: var(--soft); padding: .6rem; overflow: auto; max-height: 24rem; white-space: pre-wrap; }
  button { font: inherit; padding: .2rem 1rem; }
</style>
</head>
<body>
<h1>stoker <small id="version"></small></h1>
<p id="about"></p>
<p><label>API key, if the server asks for one: <input id="key" type="password" autocomplete="off"></label>
&middot; <a href="/openapi.json">openapi.json</a></p>
<div id="routes"></div>
<script>
"use strict";
const make = (tag, text, ...children) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
};
const headers = () => {
  const key = document.getElementById("key").value;
  return key ? { authorization: "Bearer " + key } : {};
};
let schemas = {};
const resolve = (schema) => (schema && schema.$ref ? schemas[schema.$ref.split("/").pop()] : schema) || {};
const kind = (schema) => {
  if (schema.$ref) return schema.$ref.split("/").pop();
  const options = schema.anyOf || schema.oneOf;
  if (options) return options.map(kind).filter((name) => name !== "null").join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.type === "array") return "array of " + kind(schema.items || {});
  return schema.type || "any";
};
const limits = (schema) => {
  const part = [schema, ...(schema.anyOf || [])].find((s) => "minimum" in s || "maximum" in s) || {};
  const low = "minimum" in part ? " \\u2265 " + part.minimum : "";
  const high = "maximum" in part && part.maximum < 1e15 ? " \\u2264 " + part.maximum : "";
  return low + high;
};
const fields = (schema) => {
  const table = make("table");
  for (const [name, field] of Object.entries(schema.properties || {})) {
    const required = (schema.required || []).includes(name) ? " (required)" : "";
    table.append(make("tr", "", make("td", "", make("code", name)),
      make("td", kind(field) + limits(field) + required), make("td", field.description || "")));
  }
  return table;
};
const EXAMPLES = {
  "/v1/chat/completions": {
    messages: [{ role: "user", content: "Why is the sky blue?" }], max_tokens: 100, stream: true,
  },
  "/v1/completions": { prompt: "The sky is blue because", max_tokens: 50 },
};
const run = async (method, path, body, output) => {
  output.textContent = "";
  try {
    const options = { method, headers: headers() };
    if (body !== null) { options.body = body; options.headers["content-type"] = "application/json"; }
    const answer = await fetch(path, options);
    output.textContent = "HTTP " + answer.status + "\\n";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      output.append(value);
    }
  } catch (error) {
    output.append(String(error));
  }
};
const show = (path, method, operation) => {
  const box = make("details", "", make("summary", "", make("b", method.toUpperCase()), make("code", path),
    make("span", " \\u2013 " + (operation.summary || ""))));
  const json = operation.requestBody?.content?.["application/json"];
  let input = null;
  if (json) {
    box.append(make("h4", "Fields"), fields(resolve(json.schema)));
    input = make("textarea", JSON.stringify(EXAMPLES[path] || {}, null, 2));
    box.append(make("h4", "Try it"), input);
  }
  const output = make("pre");
  const target = make("input");
  target.value = path;
  if (path.includes("{")) box.append(target);
  const button = make("button", "Send");
  button.onclick = () => run(method.toUpperCase(), target.value, input ? input.value : null, output);
  box.append(make("p", "", button), output);
  box.append(make("h4", "Answers"));
  for (const [status, answer] of Object.entries(operation.responses || {}))
    box.append(make("div", status + " \\u2013 " + (answer.description || "")));
  const reply = operation.responses?.["200"]?.content?.["application/json"];
  if (reply) box.append(make("h4", "Fields of the answer"), fields(resolve(reply.schema)));
  document.getElementById("routes").append(box);
};
const load = async () => {
  const answer = await fetch("/openapi.json");
  const routes = document.getElementById("routes");
  if (!answer.ok) { routes.textContent = "/openapi.json: HTTP " + answer.status; return; }
  const document_ = await answer.json();
  schemas = document_.components.schemas;
  document.getElementById("version").textContent = document_.info.version;
  document.getElementById("about").textContent = document_.info.description;
  for (const [path, methods] of Object.entries(document_.paths))
    for (const [method, operation] of Object.entries(methods)) show(path, method, operation);
};
load();
</script>
</body>
</html>
"""

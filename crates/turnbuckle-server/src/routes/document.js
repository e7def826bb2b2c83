"use strict";
// Shows /openapi.json. Everything is set as text, so nothing in it can act.
const make = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
};

const nameOf = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return nameOf(schema.items) + "[]";
  if (Array.isArray(schema.type)) return schema.type.join(" | ");
  const choice = schema.oneOf || schema.anyOf || schema.allOf;
  if (choice) return choice.map(nameOf).filter((name) => name !== "null").join(schema.allOf ? " & " : " | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  return schema.type || "any";
};

const link = (schema) => {
  const name = nameOf(schema);
  const bare = name.replace("[]", "");
  return document.getElementById("type-" + bare) || (schema && schema.$ref)
    ? make("a", { href: "#type-" + bare }, make("code", {}, name))
    : make("code", {}, name);
};

const fields = (rows) =>
  make("table", {}, ...rows.map(([name, type, about]) =>
    make("tr", {}, make("td", {}, make("code", {}, name)), make("td", {}, type), make("td", {}, about || ""))));

const operation = (path, method, it) => {
  const body = make("div", {}, it.description ? make("p", {}, it.description) : undefined);
  if (it.parameters && it.parameters.length) {
    body.append(make("h4", {}, "Parameters"), fields(it.parameters.map((p) =>
      [p.name + (p.required ? "" : "?"), link(p.schema), `${p.in}. ${p.description || ""}`])));
  }
  if (it.requestBody) {
    const [[kind, media]] = Object.entries(it.requestBody.content);
    body.append(make("h4", {}, "Body"), fields([[kind, link(media.schema), ""]]));
  }
  body.append(make("h4", {}, "Answers"), fields(Object.entries(it.responses).flatMap(([status, answer]) => {
    const media = Object.entries(answer.content || { "": {} });
    return media.map(([kind, m]) => [status, m.schema ? link(m.schema) : "", `${kind} ${answer.description || ""}`]);
  })));
  const details = make("details", {}, make("summary", {},
    make("span", { class: "method" }, method), make("code", {}, path), " ",
    make("span", { class: "note" }, it.summary || "")), body);
  details.dataset.text = `${method} ${path} ${it.summary || ""}`.toLowerCase();
  return details;
};

const type = (name, schema) => {
  const body = make("div", {}, schema.description ? make("p", {}, schema.description) : undefined);
  const required = new Set(schema.required || []);
  const rows = Object.entries(schema.properties || {}).map(([field, it]) =>
    [field + (required.has(field) ? "" : "?"), link(it), it.description]);
  if (rows.length) body.append(fields(rows));
  body.append(make("pre", {}, JSON.stringify(schema, null, 2)));
  const details = make("details", { id: "type-" + name }, make("summary", {}, make("code", {}, name)), body);
  details.dataset.text = name.toLowerCase();
  return details;
};

const open = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) target.open = true;
};

fetch("/openapi.json").then((answer) => answer.json()).then((api) => {
  const main = document.getElementById("main");
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const [method, it] of Object.entries(item)) {
      const tag = (it.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(path, method, it));
    }
  }
  main.replaceChildren(make("p", { class: "note" }, api.info.description || "", " Version " + api.info.version + "."));
  for (const [tag, items] of groups) main.append(make("h2", {}, tag), ...items);
  main.append(make("h2", {}, "Types"), ...Object.entries(api.components.schemas).map(([n, s]) => type(n, s)));
  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const node of main.querySelectorAll("details")) node.hidden = !node.dataset.text.includes(wanted);
  });
  addEventListener("hashchange", open);
  open();
});

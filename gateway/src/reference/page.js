// Shows /api/openapi.json. Everything of the document becomes text, never markup.
const byId = (id) => document.getElementById(id);

/** An element with what is in it: texts and elements. */
function make(name, attributes, ...inner) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, value);
  element.append(...inner.flat(Infinity).filter((one) => one !== undefined && one !== ""));
  return element;
}

/** A line with `code` in it. */
const line = (text) => text.split("`").map((part, index) => (index % 2 === 1 ? make("code", {}, part) : part));

/** A description as paragraphs, and its lines that begin with "- " as a list. */
function prose(text) {
  return (text ?? "").split("\n\n").filter(Boolean).map((paragraph) => {
    const lines = paragraph.split("\n");
    const items = lines.filter((one) => one.startsWith("- ")).map((one) => make("li", {}, line(one.slice(2))));
    const rest = lines.filter((one) => !one.startsWith("- ")).join(" ");
    return [rest && make("p", {}, line(rest)), items.length > 0 && make("ul", {}, items)].filter(Boolean);
  }).flat();
}

const nameOf = (reference) => reference.slice(reference.lastIndexOf("/") + 1);
const schemaId = (name) => `schema-${name}`;

/** A schema in few words, with a link to what it refers to. */
function kind(schema) {
  if (schema === undefined || schema === true) return ["anything"];
  if (schema.$ref) return [make("a", { href: `#${schemaId(nameOf(schema.$ref))}` }, nameOf(schema.$ref))];
  if (schema.anyOf) return schema.anyOf.flatMap((one, index) => [index > 0 ? " or " : "", ...kind(one)]);
  if (schema.type === "array") return ["list of ", ...kind(schema.items)];
  if (schema.additionalProperties && schema.type === "object") return ["map of text to ", ...kind(schema.additionalProperties)];
  return [schema.format ? `${schema.type}, ${schema.format}` : String(schema.type ?? "anything")];
}

/** The fields of an object, or the values of an enum. */
function fields(schema) {
  const required = new Set(schema.required ?? []);
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => row(name, field, field.description, required.has(name)));
  if (rows.length > 0) return make("dl", {}, rows);
  return make("p", {}, kind(schema));
}

function row(name, schema, description, required) {
  const marks = [required && "required", schema?.readOnly && "set by the server"].filter(Boolean).join(", ");
  const over = schema?.deprecated && make("span", { class: "over" }, " deprecated");
  return [
    make("dt", {}, make("code", {}, name), " ", make("span", { class: "dim" }, kind(schema), marks && ` · ${marks}`), over || ""),
    make("dd", {}, prose(description)),
  ];
}

/** A block that is filled when it is first opened: there are many. */
function fold(id, title, fill) {
  const inside = make("div");
  const block = make("details", { id }, make("summary", {}, title), inside);
  let filled = false;
  block.fill = () => {
    if (!filled) inside.append(...fill().flat(Infinity).filter((one) => one !== ""));
    filled = true;
  };
  block.addEventListener("toggle", () => block.open && block.fill());
  return block;
}

function operation(verb, path, it, document) {
  const parameters = (it.parameters ?? []).map((one) => (one.$ref ? document.components.parameters[nameOf(one.$ref)] : one));
  const places = { path: "In the path", query: "In the query", header: "In headers" };
  const title = [make("span", { class: "verb" }, verb.toUpperCase()), make("code", {}, path), it.deprecated ? make("span", { class: "over" }, " deprecated") : "", make("br"), make("span", { class: "dim" }, it.summary)];
  return fold(it.operationId, title, () => [
    prose(it.description),
    make("p", { class: "dim" }, "Operation ", make("a", { href: `#${it.operationId}` }, it.operationId)),
    Object.entries(places).map(([place, heading]) => {
      const here = parameters.filter((one) => one.in === place);
      if (here.length === 0) return [];
      return [make("h3", {}, heading), make("dl", {}, here.map((one) => row(one.name, one.schema, one.description, one.required)))];
    }).flat(),
    body("Body", it.requestBody?.content),
    body("Answer", it.responses["200"]?.content),
    [make("h3", {}, "Errors"), make("p", {}, "Every failure is an ", kind({ $ref: "#/components/schemas/Error" }), " with a reason.")],
    [make("h3", {}, "As a command"), make("pre", {}, command(verb, path, it, parameters))],
  ]);
}

function body(title, content) {
  return Object.entries(content ?? {}).flatMap(([type, { schema, example }]) => [
    make("h3", {}, `${title} (${type})`),
    schema.properties ? fields(schema) : make("p", {}, kind(schema)),
    example ? make("pre", {}, JSON.stringify(example, null, 2)) : "",
  ]);
}

function command(verb, path, it, parameters) {
  const parts = [`curl -H "Authorization: Bearer $TOKEN"`];
  if (verb !== "get") parts.push(`-X ${verb.toUpperCase()}`);
  if (parameters.some(({ name }) => name === "X-Idempotency-Key")) parts.push(`-H "X-Idempotency-Key: $(uuidgen)"`);
  const media = it.requestBody?.content?.["application/json"];
  if (media) parts.push(`-H "Content-Type: application/json" -d '${JSON.stringify(media.example ?? {})}'`);
  parts.push(`"${location.origin}${path}"`);
  return parts.join(" \\\n  ");
}

/** Opens what the address names. */
function follow() {
  const block = byId(decodeURIComponent(location.hash.slice(1)));
  if (!(block instanceof HTMLDetailsElement)) return;
  block.fill();
  block.hidden = false;
  block.open = true;
  block.scrollIntoView();
  block.querySelector("summary").focus({ preventScroll: true });
}

function find(blocks, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { block, text: known } of blocks) {
    block.hidden = !words.every((word) => known.includes(word));
    shown += block.hidden ? 0 : 1;
  }
  for (const group of byId("groups").children) group.hidden = [...group.querySelectorAll("details")].every(({ hidden }) => hidden);
  byId("count").textContent = `${shown} of ${blocks.length} operations`;
}

function show(document) {
  byId("introduction").append(...prose(document.info.description));
  const blocks = [];
  const groups = new Map(document.tags.map(({ name, description }) => [name, make("section", { "aria-label": name }, make("h2", {}, name), prose(description))]));
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [verb, it] of Object.entries(operations)) {
      const block = operation(verb, path, it, document);
      blocks.push({ block, text: `${verb} ${path} ${it.operationId} ${it.description} ${(it.parameters ?? []).map(({ name }) => name).join(" ")}`.toLowerCase() });
      groups.get(it.tags[0])?.append(block);
    }
  }
  byId("groups").append(...groups.values());
  const schemas = Object.entries(document.components.schemas).map(([name, schema]) => fold(schemaId(name), [make("code", {}, name)], () => [prose(schema.description), [fields(schema)]]));
  byId("schemas").append(...schemas);
  byId("schemas").hidden = false;
  byId("search").addEventListener("input", ({ target }) => find(blocks, target.value));
  find(blocks, byId("search").value);
  addEventListener("hashchange", follow);
  follow();
}

try {
  const answer = await fetch("/api/openapi.json");
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  show(await answer.json());
} catch (error) {
  byId("count").textContent = `The OpenAPI document could not be read (${error.message}). Load this page again.`;
}

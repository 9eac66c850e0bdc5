// Filters of the API, as the console writes them: groups of comparisons, all of the groups, any of a group.

function holds(comparison, valueOf) {
  if (comparison.startsWith("NOT ")) return !holds(comparison.slice(4), valueOf);
  const [, field, sign, text] = /^([\w.]+)(:| = | > )(.*)$/.exec(comparison) ?? refuse(comparison);
  const value = valueOf(field);
  const wanted = text.replace(/^"(.*)"$/, "$1").replaceAll('\\"', '"');
  if (sign === " = ") return String(value) === wanted;
  if (sign === " > ") return value > Number(wanted);
  return wanted === "*" ? value !== undefined : String(value ?? "").toLowerCase().includes(wanted.toLowerCase());
}

function refuse(comparison) {
  throw new Error(`no comparison: ${comparison}`);
}

/** Whether the filter of a request keeps a row, with these values by field. */
export function keeps(searchParams, valueOf) {
  const filter = searchParams.get("filter") ?? "";
  return filter === "" || filter.split(" AND ").every((group) => group.replace(/^\((.*)\)$/, "$1").split(" OR ").some((one) => holds(one, valueOf)));
}

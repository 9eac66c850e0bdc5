// Filters of the API, as the console writes them: groups of comparisons, all of the groups, any of a group.

function holds(comparison, fields, row) {
  if (comparison.startsWith("NOT ")) return !holds(comparison.slice(4), fields, row);
  const [, field, sign, text] = /^([\w.]+)(:| = | > )(.*)$/.exec(comparison) ?? refuse(`no comparison: ${comparison}`);
  if (!fields.includes(field)) refuse(`no field of this list: ${field}`);
  const value = row[field];
  const wanted = text.replace(/^"(.*)"$/, "$1").replaceAll('\\"', '"');
  if (sign === " = ") return String(value) === wanted;
  if (sign === " > ") return value > Number(wanted);
  return wanted === "*" ? value !== undefined : String(value ?? "").toLowerCase().includes(wanted.toLowerCase());
}

function refuse(why) {
  throw new Error(why);
}

/** The rows that the filter of a request keeps, which may name these fields; it throws where the API refuses the filter. */
export function filtered(searchParams, fields, rows, valuesOf = (row) => row) {
  const filter = searchParams.get("filter") ?? "";
  if (filter === "") return rows;
  const groups = filter.split(" AND ").map((group) => group.replace(/^\((.*)\)$/, "$1").split(" OR "));
  if (filter.length > 1000 || groups.flat().length > 32) refuse(`${filter.length} characters, ${groups.flat().length} comparisons`);
  // each comparison is looked at, as the API does, also where no row needs it
  return rows.filter((row) => groups.map((group) => group.map((one) => holds(one, fields, valuesOf(row))).some(Boolean)).every(Boolean));
}

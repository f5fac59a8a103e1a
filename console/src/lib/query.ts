// The query of a table's page is that of the API's rows: filters by column, order_by, cursor and so on.

export const OPERATORS: Record<string, string> = {
  eq: "=",
  ne: "≠",
  gt: ">",
  ge: "≥",
  lt: "<",
  le: "≤",
  like: "like",
  null: "is null",
};
const OWN = new Set(["where", "order_by", "limit", "cursor", "from", "to", "format", "at_least", "wait", "max_age"]);

export interface Chip {
  name: string;
  value: string;
  column: string;
  words: string;
}

/** The filters of a query, each as words. */
export function chips(query: string, columns: string[]): Chip[] {
  return [...new URLSearchParams(query)].flatMap(([name, value]): Chip[] => {
    if (name === "where") return [{ name, value, column: "where", words: value }];
    if (name === "from" || name === "to") return [{ name, value, column: "windows", words: `${name} ${value}` }];
    if (OWN.has(name)) return [];
    const dot = name.lastIndexOf(".");
    const split = !columns.includes(name) && dot > 0;
    const column = split ? name.slice(0, dot) : name;
    const operator = split ? name.slice(dot + 1) : "eq";
    if (operator === "null") return [{ name, value, column, words: value === "true" ? "is null" : "is not null" }];
    return [{ name, value, column, words: `${OPERATORS[operator] ?? operator} ${value === "" ? '""' : value}` }];
  });
}

/** The query without one filter, on its first page. */
export function without(query: string, name: string, value?: string): string {
  const found = new URLSearchParams(query);
  found.delete("cursor");
  if (value === undefined) found.delete(name);
  else found.delete(name, value);
  return text(found);
}

export function withOne(query: string, name: string, value: string, more = false): string {
  const found = new URLSearchParams(query);
  found.delete("cursor");
  if (!more) found.delete(name);
  found.append(name, value);
  return text(found);
}

export interface Order {
  column: string;
  down: boolean;
}

export function order(query: string): Order | null {
  const given = new URLSearchParams(query).get("order_by");
  const match = given?.match(/^\s*`?([^`,]+?)`?(?:\s+(asc|desc))?\s*(?:,.*)?$/i);
  return match?.[1] ? { column: match[1], down: match[2]?.toLowerCase() === "desc" } : null;
}

/** The next order when a column's head is clicked: down, up, none. */
export function ordered(query: string, column: string): string {
  const now = order(query);
  if (now?.column !== column) return withOne(query, "order_by", `${name(column)} desc`);
  return now.down ? withOne(query, "order_by", name(column)) : without(query, "order_by");
}

export const name = (column: string): string => (/^[A-Za-z_]\w*$/.test(column) ? column : `\`${column}\``);

/** The parameters that choose rows, without order and place. */
export function choosing(query: string): URLSearchParams {
  const found = new URLSearchParams(query);
  for (const one of ["order_by", "cursor", "limit", "format"]) found.delete(one);
  return found;
}

function text(query: URLSearchParams): string {
  const found = query.toString();
  return found ? `?${found}` : "";
}

// Addresses: a page's path and query are those of its data below /api, so that a link shows what it loads.

export type Page =
  | { page: "overview"; app: string | null }
  | { page: AppPage; app: string }
  | { page: "table" | "batches" | "state" | "pattern"; app: string; table: string }
  | { page: "key"; app: string; table: string; key: string[]; raw: string }
  | { page: "side"; app: string; table: string; kind: SideKind }
  | { page: "unknown"; app: string | null };

/** The pages of an app beside its overview, in the order of their links. */
export const APP_PAGES = ["health", "topology", "trends", "savepoints"] as const;
export type AppPage = (typeof APP_PAGES)[number];
export type SideKind = "rejected" | "late" | "duplicate";
export const SIDE_KINDS: readonly SideKind[] = ["rejected", "late", "duplicate"];

const here = $state({ path: location.pathname, query: location.search, hash: location.hash });

function look(): void {
  here.path = location.pathname;
  here.query = location.search;
  here.hash = location.hash;
}
addEventListener("popstate", look);

export const route = {
  get path(): string {
    return here.path;
  },
  get query(): string {
    return here.query;
  },
  get hash(): string {
    return decode(here.hash.slice(1));
  },
  get page(): Page {
    return parse(here.path);
  },
};

export function go(address: string, replace = false): void {
  const before = location.pathname;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  look();
  if (location.pathname !== before) scrollTo(0, 0);
}

// Links of the console change the page without a load; all other clicks are the browser's.
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname !== "/" && !link.pathname.startsWith("/apps")) return;
  event.preventDefault();
  go(link.pathname + link.search + link.hash);
}

export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parse(path: string): Page {
  const raw = path.split("/").slice(1);
  const [first, app, second, table, third, ...rest] = raw;
  if (path === "/" || path === "/apps" || path === "/apps/") return { page: "overview", app: null };
  if (first !== "apps" || !app) return { page: "unknown", app: null };
  const name = decode(app);
  if (second === undefined || (second === "" && table === undefined)) return { page: "overview", app: name };
  const ofApp = APP_PAGES.find((one) => one === second);
  if (table === undefined && ofApp) return { page: ofApp, app: name };
  if (second !== "tables" || !table) return { page: "unknown", app: name };
  const of = { app: name, table: decode(table) };
  if (third === undefined || (third === "" && !rest.length)) return { page: "table", ...of };
  if ((third === "batches" || third === "state" || third === "pattern") && !rest.length) return { page: third, ...of };
  const kind = SIDE_KINDS.find((one) => one === rest[0]);
  if (third === "side" && kind && rest.length === 1) return { page: "side", ...of, kind };
  if (third === "keys" && rest.length) return { page: "key", ...of, key: rest.map(decode), raw: rest.join("/") };
  return { page: "unknown", app: name };
}

export const appHref = (app: string): string => `/apps/${encodeURIComponent(app)}`;
export const tableHref = (app: string, table: string): string =>
  `${appHref(app)}/tables/${encodeURIComponent(table)}`;

export function keyHref(app: string, table: string, columns: string[], parts: unknown[]): string {
  const words = parts.map((part) => String(part));
  // Browsers resolve these parts of a path, however they are encoded.
  if (words.some((word) => word === "." || word === "..")) {
    const query = columns.map((column, i) => [`${column}.eq`, words[i] ?? ""]);
    return `${tableHref(app, table)}?${new URLSearchParams(query)}`;
  }
  return `${tableHref(app, table)}/keys/${words.map(encodeURIComponent).join("/")}`;
}

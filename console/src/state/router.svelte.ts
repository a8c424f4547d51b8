/** The view and its parameters, in the fragment of the address: `#/ring?keyspace=orders`. */

export const VIEWS = [
  "cluster",
  "shards",
  "keys",
  "ring",
  "lookups",
  "transactions",
  "timeline",
  "events",
  "simulator",
  "tour",
] as const;
export type ViewName = (typeof VIEWS)[number];

export const VIEW_NAMES: Record<ViewName, string> = {
  cluster: "Cluster",
  shards: "Shards",
  keys: "Keys",
  ring: "Ring",
  lookups: "Lookups",
  transactions: "Transactions",
  timeline: "Timeline",
  events: "Events",
  simulator: "Simulator",
  tour: "How it works",
};

export interface Route {
  view: ViewName;
  params: Readonly<Record<string, string>>;
  /** A view that the address names and that there is not; its parameters belong to none then. */
  unknown?: string;
}

export function parseRoute(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  const params = Object.fromEntries(new URLSearchParams(query));
  if ((VIEWS as readonly string[]).includes(path)) return { view: path as ViewName, params };
  return path === "" ? { view: "cluster", params } : { view: "cluster", params, unknown: path };
}

export function formatRoute(view: ViewName, params: Readonly<Record<string, string>> = {}): string {
  const kept = Object.entries(params).filter(([, value]) => value !== "");
  const query = new URLSearchParams(kept).toString();
  return `#/${view}${query === "" ? "" : `?${query}`}`;
}

class Router {
  route = $state.raw<Route>({ view: "cluster", params: {} });

  start(): () => void {
    const read = () => (this.route = parseRoute(location.hash));
    read();
    window.addEventListener("hashchange", read);
    return () => window.removeEventListener("hashchange", read);
  }

  param(name: string): string {
    return this.route.params[name] ?? "";
  }

  /** Changes parameters of the view in place: no new entry in the browser's history. */
  set(changes: Readonly<Record<string, string>>): void {
    // An address that leads nowhere stays as it was typed.
    if (this.route.unknown !== undefined) return;
    const params = { ...this.route.params, ...changes };
    const fragment = formatRoute(this.route.view, params);
    if (fragment === location.hash) return;
    history.replaceState(null, "", fragment);
    this.route = parseRoute(fragment);
  }

  go(view: ViewName, params: Readonly<Record<string, string>> = {}): void {
    location.hash = formatRoute(view, params);
  }
}

export const router = new Router();

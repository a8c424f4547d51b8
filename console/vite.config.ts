import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { ProxyOptions } from "vite";
import { defineConfig } from "vitest/config";

/** A running node for `npm run dev`. */
const node = process.env["CARILLON_HTTP"] ?? "http://127.0.0.1:7480";
/** Passes requests on as the node's own page would send them: it refuses those of other origins. */
const onward: ProxyOptions = {
  target: node,
  changeOrigin: true,
  configure: (proxy) => proxy.on("proxyReq", (request) => request.removeHeader("origin")),
};

export default defineConfig({
  plugins: [svelte()],
  // Every address is relative: the server may put the console under any path.
  base: "./",
  build: {
    target: "es2022",
    assetsInlineLimit: 0, // a data: address would need a wider policy
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    chunkSizeWarningLimit: 600,
  },
  server: {
    proxy: { "/v1": onward, "/metrics": onward },
  },
  resolve: process.env["VITEST"] ? { conditions: ["browser"] } : {},
  test: { environment: "node", include: ["tests/unit/**/*.test.ts"] },
});

// SPDX-License-Identifier: Apache-2.0
// @huggingface/hub scans the hub view of a mount: cache-view.mjs NODE_MODULES DIR.
import assert from "node:assert";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [where, cacheDir] = process.argv.slice(2);
const require = createRequire(where + "/");
const { scanCacheDir } = await import(pathToFileURL(require.resolve("@huggingface/hub")));
const { repos, warnings } = await scanCacheDir(cacheDir);
const tiny = repos.find((repo) => repo.id.name === "acme/tiny");
assert(tiny, JSON.stringify(repos));
const main = tiny.revisions.find((revision) => revision.refs.includes("main"));
assert.equal(main.commitOid.length, 40);
// It does not look below directories.
assert.equal(main.files.length, 8);
assert.deepEqual(warnings, []);

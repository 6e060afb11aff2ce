// SPDX-License-Identifier: Apache-2.0
// Embed a sentence with @huggingface/transformers: embed.mjs NODE_MODULES DIR MODEL
// loads DIR/MODEL. Prints the numbers and a digest of their bytes.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [where, dir, model] = process.argv.slice(2);
const require = createRequire(where + "/");
const { env, pipeline } = await import(pathToFileURL(require.resolve("@huggingface/transformers")));
env.allowRemoteModels = false;
env.localModelPath = dir;
const embed = await pipeline("feature-extraction", model, { dtype: "fp32", device: "cpu" });
const { dims, data } = await embed(["The cache is warm."], { pooling: "mean", normalize: false });
console.log(dims.join("x"), Array.from(data.slice(0, 4), (number) => number.toFixed(4)).join(" "),
	createHash("sha256").update(Buffer.from(data.buffer, data.byteOffset, data.byteLength)).digest("hex"));

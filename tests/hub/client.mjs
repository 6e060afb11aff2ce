// SPDX-License-Identifier: Apache-2.0
// The imitated Hub under @huggingface/hub: every route that it asks for.
import assert from "node:assert";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.argv[2] + "/");
const hub = await import(pathToFileURL(require.resolve("@huggingface/hub")));
const hubUrl = process.env.HF_ENDPOINT;
const repo = { type: "model", name: "acme/tiny" };
const digest = async (blob) =>
	createHash("sha256").update(Buffer.from(await blob.arrayBuffer())).digest("hex");

const info = await hub.modelInfo({ name: "acme/tiny", hubUrl, additionalFields: ["sha", "tags"] });
assert.equal(info.name, "acme/tiny");
assert.equal(info.sha.length, 40);

const files = {};
for await (const file of hub.listFiles({ repo, recursive: true, hubUrl }))
	files[file.path] = file;
assert.equal(Object.keys(files).length, 27);
const shard = files["model-00002-of-00002.safetensors"];
let many = 0;
for await (const file of hub.listFiles({ repo: { type: "dataset", name: "acme/laion-images" }, recursive: true, hubUrl }))
	many++;
assert.equal(many, 6001);
const deep = [];
for await (const file of hub.listFiles({ repo, path: "onnx/sub", revision: "refs/pr/1", recursive: true, hubUrl }))
	deep.push(file.path);
assert.deepEqual(deep.sort(), ["onnx/sub/deep", "onnx/sub/deep/config.json"]);

const paths = await hub.pathsInfo({ repo, paths: ["empty", "onnx", "no"], hubUrl });
assert.deepEqual(paths.map((p) => p.path).sort(), ["empty", "onnx"]);

const found = await hub.fileDownloadInfo({ repo, path: shard.path, hubUrl });
assert.equal(found.size, shard.size);
for (const xet of [false, undefined]) {
	const blob = await hub.downloadFile({ repo, path: shard.path, hubUrl, xet });
	if (xet === false)
		assert.equal(await digest(blob), shard.lfs.oid);
	assert.equal(blob.size, shard.size);
}
const part = await hub.downloadFile({ repo, path: shard.path, hubUrl, xet: false });
assert.equal(Buffer.from(await part.slice(1000, 1010).arrayBuffer()).length, 10);
// It does not escape paths.
for (const path of Object.keys(files).filter((p) => /^odd\/[^#?%]+$/.test(p))) {
	const blob = await hub.downloadFile({ repo, path, hubUrl });
	assert.equal(await blob.text(), `this is ${path.slice(4)}\n`);
}
assert.equal(await hub.downloadFile({ repo, path: "no-such-file", hubUrl }), null);
await assert.rejects(hub.modelInfo({ name: "acme/none", hubUrl }), /not found/i);
await assert.rejects(hub.downloadFile({ repo: { type: "model", name: "acme/gated" }, path: "config.json", hubUrl }), /restricted/);
const gated = await hub.downloadFile({
	repo: { type: "model", name: "acme/gated" }, path: "config.json", hubUrl, accessToken: "hf_goodToken",
});
assert.match(await gated.text(), /gated/);

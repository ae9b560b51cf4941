// Package sdk is what the author of a predicate, a priority or another plugin of
// the scheduling cycle imports: a value such as Predicate or Permit holds the
// author's functions, Register adds it to the bundle, Serve serves the bundle.
// Controllers are in sdk/reconciler and sdk/controller, admission plugins in
// sdk/admission, proxies and runtimes in packages of their names.
//
// A plugin registers itself from init and main calls Serve; which transport
// that means is found out by how the source was built:
//
//   - GOOS=wasip1 GOARCH=wasm -buildmode=c-shared: a WASM module with the
//     exports of ABI.md. main is never called; Serve does nothing.
//   - any other build started by the kernel: a process plugin over gRPC.
//   - a test binary: nothing is served; sdk.NewGuest and sdk/plugintest run the
//     registered plugins in the test's own process.
//
// How data passes through: the host sends a Delta (sdk/contract/v1) when nodes,
// pods, pod classes or cluster objects change. The Guest decodes it into its
// Cluster, the replica that every plugin of the bundle shares. A question
// carries only a class and a set of node indexes; the Guest runs the plugin's
// Filter or Score over all of them in one crossing and answers in numbers.
//
// The package imports nothing of Kubernetes and, in a WASM build, nothing
// beyond the standard library: modules stay small and start fast. It must not
// import kernel or plugins.
//
// Caveats: a Guest is used by one goroutine at a time. The Request that a
// plugin receives is reused for the next node; the replica behind it must not
// be changed or kept.
package sdk

// Package guest owns the interface between the host and a loaded bundle. The bundle is a
// module of WebAssembly (package wasm) or a process (package process).
//
// Each of them implements Guest. Optional capabilities are separate interfaces (Evaluator,
// Quick, Carrier, Reviewer, Controlling, …). The host tests for the capability, not for the
// kind of guest. Part is a delta for guests, encoded once. An error that wraps ErrBroken
// means that the guest must be replaced. One that wraps ErrPermanent means that another start
// would fail in the same way. Contract holds the versions of the contract that this kernel
// speaks.
//
// The package starts no goroutine. The caller of a guest serializes the calls, as Guest says.
// It may import sdk, kernel/plugin/confinement (the names of walls) and
// kernel/scheduler/handover. It must not import kernel/plugin, wasm or process.
package guest

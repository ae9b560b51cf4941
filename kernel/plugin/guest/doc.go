// Package guest says what a loaded bundle is to its host, whatever carries the calls: a
// module of WebAssembly (package wasm) or a process (package process).
//
// Guest is what each of them does. What only some of them can is an interface of its own
// (Evaluator, Quick, Carrier, Reviewer, Controlling, …): the host asks for the capability and
// not for the kind. Part is a delta as it is handed to guests, encoded once. Errors that wrap
// ErrBroken say that a guest must be replaced, those that wrap ErrPermanent that another start
// would meet them again. Contract are the versions of the contract that this kernel speaks.
//
// It starts no goroutine; who calls a guest serializes the calls, as Guest says. It may import
// sdk, kernel/plugin/confinement (the names of walls) and kernel/scheduler/handover; it must
// not import kernel/plugin, wasm or process.
package guest

// Classic is the bundle of the classic scheduling policy: ten predicates and
// seven priorities that share one replica, built to one WASM module
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o classic.wasm ./plugins/classic
//
// or, from the same source, to one process plugin (go build). Each plugin has a
// folder under plugins/predicates or plugins/priorities and a name by which a
// profile switches it.
//
// The bundle owns the list of its plugins and nothing else. It must import sdk
// and plugin folders only.
package main

// Modern is the bundle of the default policy of kube-scheduler 1.36: its plugins,
// each decided as there, that share one replica, built to one WASM module
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o modern.wasm ./plugins/modern
//
// or, from the same source, to one process plugin (go build). Each plugin has a
// folder under plugins and a name by which a profile switches it: kube-scheduler's
// own, with Score behind it for the scoring half of a plugin that filters too, and
// with the point's name behind it for what else such a plugin does.
//
// The bundle owns the list of its plugins and nothing else. It must import sdk
// and plugin folders only.
package main

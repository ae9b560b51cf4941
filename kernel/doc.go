// Package kernel wires the parts of the minimal core into one kernel and runs
// it: store, bus, API, plugin host, scheduler, node.
//
// # What it owns
//
// The order of start and stop, and the plain structs that each part is
// configured with. A part is stopped only when everything that was started
// after it has stopped, each with a deadline. Parts know each other through
// the API alone; what is handed over here is clients, sources and sockets.
//
// # What it promises
//
// New touches nothing that runs and names what is wrong with the configuration
// or the data directory in one line. Run returns when everything has ended. An
// orderly stop leaves no process, mount, interface or rule behind and keeps
// every object; kill -9 loses nothing that was acknowledged, and containers go
// on until the next start finds them.
//
// Nothing here names a plugin: which are loaded is the configuration's.
package kernel

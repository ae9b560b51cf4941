// Package pleg is the pod lifecycle event generator (KLT-23): it lists what the runtime has every period, compares
// with the list before, and names the pods that changed; beside that it follows the runtime's event stream, which
// names them at once. Pod workers need no polling.
//
// Events reads the stream, in one goroutine for one node or for all nodes of a process; a runtime without a stream is
// only listed. It must import only kernel/node/cri of its siblings.
package pleg

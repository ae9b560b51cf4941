package manifest

import "pintle.dev/pintle/sdk/reconciler/protocol"

// HostFunctions are the names of the host functions that a module may call beside WASI
// (sdk/ABI.md, "Controllers"). A module that imports one that its manifest does not name
// Is not loaded.
var HostFunctions = protocol.Operations()

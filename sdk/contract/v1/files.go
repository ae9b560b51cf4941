package contractv1

import "embed"

// Files are the .proto files of the contract, for plugins in other languages.
//
//go:embed *.proto
var Files embed.FS

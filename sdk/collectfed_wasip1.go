//go:build wasip1

package sdk

import (
	"runtime"
	"runtime/metrics"
)

// A module is fed a whole cluster in parts, each a call, and Go's collector, which
// works beside calls, does not get to its end between them: the heap grew to twice
// what lives in it, and a module's memory does not shrink again. So collections are
// made then, where no decision waits for them.
const (
	// fedPart is the least size of a delta that is such a part.
	fedPart = 16 << 10
	// fedGarbage may be allocated above what lives, or a quarter of that.
	fedGarbage = 3 << 20
)

var fed []metrics.Sample

// collectFed is called when a delta of a size was applied.
func collectFed(size uint32) {
	if size < fedPart {
		return
	}
	if fed == nil {
		fed = []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	}
	metrics.Read(fed)
	if live, used := fed[0].Value.Uint64(), fed[1].Value.Uint64(); used > live+max(live/4, fedGarbage) {
		runtime.GC()
	}
}

//go:build wasip1

// Hostile is a WASM module that speaks the ABI (sdk/ABI.md) by hand, without
// package sdk, whose guards would keep it from the worst: each of its plugins
// breaks the contract in a way of its own.
package main

import (
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"
)

const description = `{"contract":1,"plugins":[
{"name":"Traps","kind":"predicate","scope":"node"},
{"name":"Loops","kind":"predicate","scope":"node"},
{"name":"Allocates","kind":"predicate","scope":"node"},
{"name":"InventsVerdicts","kind":"predicate","scope":"node"},
{"name":"PointsAstray","kind":"predicate","scope":"node"},
{"name":"Exits","kind":"predicate","scope":"node"},
{"name":"Scribbles","kind":"predicate","scope":"node"},
{"name":"LiesOfStatus","kind":"predicate","scope":"node"},
{"name":"Dozes","kind":"predicate","scope":"node"},
{"name":"Floods","kind":"predicate","scope":"node"},
{"name":"Draws","kind":"predicate","scope":"node"},
{"name":"PeeksAtFiles","kind":"predicate","scope":"node"},
{"name":"ScoresEleven","kind":"priority","scope":"node","normalize":"none"},
{"name":"ScoresNaN","kind":"priority","scope":"node","normalize":"none"},
{"name":"ScoresHuge","kind":"priority","scope":"node","normalize":"plugin"},
{"name":"ReadsFiles","kind":"predicate","scope":"node"}]}`

// granted is a folder that ReadsFiles may read, set when it is linked.
var granted string

const (
	traps = iota
	loops
	allocates
	inventsVerdicts
	pointsAstray
	exits
	scribbles
	liesOfStatus
	dozes
	floods
	draws
	peeksAtFiles
	scoresEleven
	scoresNaN
	scoresHuge
	readsFiles
)

var (
	text    = []byte(strings.TrimSuffix(description, "]}") + harmless() + "]}")
	buffers = map[uint32][]uint64{}
	hoard   [][]byte
	count   int
)

// harmless describes predicates that everything fits, for a test of many.
func harmless() string {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, ",{\"name\":\"many%03d\",\"kind\":\"predicate\",\"scope\":\"node\"}", i)
	}
	return b.String()
}

func pointer(p unsafe.Pointer) uint32 { return uint32(uintptr(p)) }

//go:wasmexport pintle_abi_version
func version() int32 { return 1 }

//go:wasmexport pintle_alloc
func alloc(size uint32) uint32 {
	b := make([]uint64, size/8+1)
	p := pointer(unsafe.Pointer(&b[0]))
	buffers[p] = b
	return p
}

//go:wasmexport pintle_free
func free(p uint32) { delete(buffers, p) }

//go:wasmexport pintle_describe
func describe() uint64 {
	return uint64(pointer(unsafe.Pointer(&text[0])))<<32 | uint64(len(text))
}

//go:wasmexport pintle_configure
func configure(_, _, _ uint32) int32 { return 0 }

//go:wasmexport pintle_apply
func apply(_, _ uint32) int32 { return 0 }

//go:wasmexport pintle_filter
func filter(plugin, _, _, n, out uint32) int32 {
	verdicts := unsafe.Slice((*uint32)(unsafe.Pointer(uintptr(out))), n)
	switch plugin {
	case traps:
		return int32(*(*byte)(unsafe.Pointer(uintptr(0xfffffff0)))) // beyond its memory
	case loops:
		for n > 0 {
			count++
		}
	case allocates:
		for {
			hoard = append(hoard, make([]byte, 8<<20))
		}
	case inventsVerdicts:
		for i := range verdicts {
			verdicts[i] = 1 << 30
		}
	case pointsAstray:
		for i := range verdicts {
			verdicts[i] = 1
		}
	case exits:
		var nothing map[string]int
		nothing["x"] = 1 // the runtime panics and ends the module
	case scribbles:
		// All of its memory, the host's buffers in it and what lies beyond.
		for p := uintptr(1 << 16); ; p += 8 {
			*(*uint64)(unsafe.Pointer(p)) = 0xffffffffffffffff
		}
	case liesOfStatus:
		return 77
	case dozes:
		// It has a second.
		for began := time.Now(); time.Since(began) < 850*time.Millisecond; {
			count++
		}
	case floods:
		for range 100_000 {
			os.Stdout.Write([]byte("noise noise noise\n"))
		}
	case draws:
		// Randomness without end: the host makes it, not the module.
		b := make([]byte, 32<<20)
		for {
			rand.Read(b)
		}
	case peeksAtFiles, readsFiles:
		// The folder's link leads out of it, as do the dots.
		beside := []string{"/etc/passwd", "/proc/self/environ", "/", "../../../../etc/passwd", granted + "/link", granted + "/../manifest.yaml"}
		if plugin == peeksAtFiles { // to the other one it is what it was granted
			beside = append(beside, ".")
		}
		for _, path := range beside {
			if f, err := os.Open(path); err == nil {
				os.Stdout.WriteString("reached " + f.Name() + "\n")
			}
		}
		if text, err := os.ReadFile(granted + "/hello"); err == nil {
			os.Stdout.WriteString("granted " + string(text) + "\n")
		}
		if err := os.WriteFile(granted+"/hello", []byte("bye"), 0o666); err == nil {
			os.Stdout.WriteString("reached " + granted + " to write\n")
		}
		if os.Remove(granted+"/hello") == nil {
			os.Stdout.WriteString("reached " + granted + " to remove\n")
		}
		// All that a module is told is its ceiling of memory.
		told := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOMEMLIMIT=") })
		if len(told) > 0 || len(os.Args) > 0 && os.Args[0] != "" {
			os.Stdout.WriteString("reached the environment\n")
		}
		os.Stdout.WriteString("looked around\n")
	default:
		clear(verdicts) // everything fits
	}
	return 0
}

//go:wasmexport pintle_score
func score(plugin, _, _, n, out uint32) int32 {
	scores := unsafe.Slice((*int64)(unsafe.Pointer(uintptr(out))), n)
	for i := range scores {
		scores[i] = 11
		if plugin == scoresNaN {
			scores[i] = int64(math.Float64bits(math.NaN()))
		}
	}
	return 0
}

//go:wasmexport pintle_normalize
func normalize(_, _, _, n, out uint32) int32 {
	for i := range unsafe.Slice((*int64)(unsafe.Pointer(uintptr(out))), n) {
		unsafe.Slice((*int64)(unsafe.Pointer(uintptr(out))), n)[i] = math.MinInt64
	}
	return 0
}

// reason points to text that is not in the memory.
//
//go:wasmexport pintle_reason
func reason(_, _ uint32) uint64 { return 0xfffffff0<<32 | 100 }

//go:wasmexport pintle_error
func failure() uint64 { return 0 }

func main() {}

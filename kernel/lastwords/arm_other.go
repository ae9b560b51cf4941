//go:build !linux || !(amd64 || arm64) || race

package lastwords

// traceFD is where the program finds the trace.
const traceFD = 3

func arm([]string) (release func(), err error) { return nil, ErrNotHere }

// The guest that the package's tests build as a WASM module and as a process:
// two sound plugins, and predicates that break every rule there is.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"pintle.dev/pintle/sdk"
)

var (
	hoard [][]byte
	runs  int
)

func init() {
	sdk.Register(sdk.Predicate{
		Name: "FitsCPU",
		Filter: func(r *sdk.Request) sdk.Verdict {
			if r.Node.Requested.MilliCPU+r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU {
				return sdk.Unfit("Insufficient cpu")
			}
			return sdk.Fits()
		},
	})
	sdk.Register(sdk.Predicate{
		Name: "MatchesLabels",
		Filter: func(r *sdk.Request) sdk.Verdict {
			for k, v := range r.Pod.NodeSelector {
				if r.Node.Labels[k] != v {
					return sdk.Unfit("node(s) didn't match Pod's node selector", "second reason")
				}
			}
			return sdk.Fits()
		},
	})
	sdk.Register(sdk.Predicate{
		// Well about some nodes, and out of order about others.
		Name: "Moody",
		Filter: func(r *sdk.Request) sdk.Verdict {
			switch r.Node.Name {
			case "n1":
				return sdk.Unfit("moody about " + r.Node.Name)
			case "n2":
				panic("on purpose")
			case "n3":
				for r.Pod != nil {
					runs++
				}
			}
			return sdk.Fits()
		},
	})
	sdk.Register(sdk.Predicate{
		// What a terminal would obey, words without a letter, and too many of them.
		Name: "Swears",
		Filter: func(r *sdk.Request) sdk.Verdict {
			switch r.Node.Name {
			case "n0":
				return sdk.Unfit("\x1b[2J\x1b]0;title\x07bad\u202eword", "  ", "second\tone")
			case "n1":
				return sdk.Unfit(" \x0b")
			case "n2":
				return sdk.Unfit(strings.Repeat("long ", 5000))
			}
			panic("\x1b[31mon purpose\x00")
		},
	})
	sdk.RegisterNew(leastCPU)
	sdk.Register(sdk.Predicate{
		Name: "LoopsForEver",
		Filter: func(r *sdk.Request) sdk.Verdict {
			n := 0
			for r.Pod != nil {
				n++
			}
			return sdk.Unfit(strconv.Itoa(n))
		},
	})
	sdk.Register(sdk.Predicate{
		Name: "TakesItsTime",
		Filter: func(*sdk.Request) sdk.Verdict {
			for began := time.Now(); time.Since(began) < 2*time.Second; {
				runs++
			}
			return sdk.Unfit("in the end")
		},
	})
	sdk.Register(sdk.Predicate{
		// Each node has an hour of the year 2100 at which its verdict ends.
		Name: "Ends", Expires: true,
		Filter: func(r *sdk.Request) sdk.Verdict {
			if r.Now().Year() < 2020 {
				return sdk.Unfit("there is no clock")
			}
			r.Until(time.Date(2100, 1, 1, int(r.Node.Index), 0, 0, 0, time.UTC))
			return sdk.Fits()
		},
	})
	sdk.Register(sdk.Predicate{
		Name: "AsksForTheTime", // and may not
		Filter: func(r *sdk.Request) sdk.Verdict {
			return sdk.Unfit(r.Now().String())
		},
	})
	sdk.Register(sdk.Predicate{
		Name: "AllocatesWithoutEnd",
		Filter: func(*sdk.Request) sdk.Verdict {
			for {
				b := make([]byte, 1<<20)
				for i := range b {
					b[i] = byte(i)
				}
				hoard = append(hoard, b)
			}
		},
	})
	sdk.Register(sdk.Predicate{
		// Holds most of its ceiling and leaves as much behind as is held.
		Name: "Wastes",
		Filter: func(*sdk.Request) sdk.Verdict {
			for len(hoard) < 34 {
				hoard = append(hoard, make([]byte, 1<<20))
			}
			for i := range hoard {
				hoard[i] = make([]byte, 1<<20)
			}
			return sdk.Fits()
		},
	})
	sdk.Register(sdk.Predicate{
		Name:   "Panics",
		Filter: func(*sdk.Request) sdk.Verdict { panic("on purpose") },
	})
	sdk.Register(sdk.Predicate{
		Name: "Prints",
		Filter: func(r *sdk.Request) sdk.Verdict {
			fmt.Println("asked about", r.Node.Name)
			fmt.Fprintln(os.Stderr, "and about", r.Pod.Name)
			return sdk.Fits()
		},
	})
	sdk.Register(sdk.Predicate{
		Name: "Recurses",
		Filter: func(r *sdk.Request) sdk.Verdict {
			return sdk.Unfit(strconv.Itoa(recurse(1)))
		},
	})
}

// slowFactor is a configuration that takes its time.
const slowFactor = 1007

var spun int

// leastCPU multiplies what is free by its configuration.
func leastCPU() sdk.Priority {
	factor := int64(1)
	return sdk.Priority{
		Name: "LeastCPU", Normalize: sdk.NormalizePlugin, Reads: []string{"Service"},
		Configure: func(config []byte) (err error) {
			factor, err = strconv.ParseInt(strings.TrimSpace(string(config)), 10, 64)
			for began := time.Now(); factor == slowFactor && time.Since(began) < 3*time.Second; {
				for range 1 << 16 { // a module says that it is late when it has computed a while
					spun++
				}
			}
			return err
		},
		Prepare: func(c *sdk.Cluster, pod *sdk.Pod) any {
			n := int64(0)
			c.Objects("Service", pod.Namespace, func(*sdk.Object) bool { n++; return true })
			return n
		},
		Score: func(r *sdk.Request) int64 {
			return (r.Node.Allocatable.MilliCPU-r.Node.Requested.MilliCPU)*factor + r.State.(int64)
		},
		NormalizeFunc: func(_ *sdk.Cluster, _ *sdk.Pod, _ any, _ []*sdk.Node, scores []int64) {
			var top int64 = 1
			for _, s := range scores {
				top = max(top, s)
			}
			for i := range scores {
				scores[i] = scores[i] * sdk.MaxScore / top
			}
		},
	}
}

//go:noinline
func recurse(n int) int { return recurse(n+1) + n }

func main() { sdk.Serve() }

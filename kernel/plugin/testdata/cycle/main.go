// The guest that is asked at every point of the scheduling cycle, as a WASM
// module and as a process. It is sound, unless the pod's label "do" at the point
// of the label "at" asks for something else.
package main

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"pintle.dev/pintle/sdk"
)

var (
	mu      sync.Mutex
	journal []string
)

func note(what string) {
	mu.Lock()
	defer mu.Unlock()
	journal = append(journal, what)
}

// misbehave does what a pod asks for at a point; done: with that status.
func misbehave(at string, pod *sdk.Pod) (s sdk.Status, done bool) {
	if pod.Labels["at"] != at {
		return s, false
	}
	switch pod.Labels["do"] {
	case "refuse":
		return sdk.Refuse("refused by " + at), true
	case "panic":
		panic("on purpose at " + at)
	case "hang":
		for n := 0; ; n++ {
			if n < 0 {
				return s, true
			}
		}
	case "wild code":
		return sdk.Status{Code: 77}, true
	case "wild text":
		return sdk.Refuse(strings.Repeat("x", 1<<20)), true
	case "wild wait":
		return sdk.WaitFor(-time.Hour), true
	case "fail":
		return sdk.Status{Code: sdk.Error, Reasons: []string{"failed at " + at}}, true
	}
	return s, false
}

func wild(at string, pod *sdk.Pod) bool {
	return pod.Labels["at"] == at && pod.Labels["do"] == "wild answer"
}

func init() {
	sdk.Register(sdk.PreEnqueue{Name: "Enter", Admit: func(_ *sdk.Cluster, p *sdk.QueuedPod) sdk.Status {
		s, _ := misbehave("pre-enqueue", p.Pod)
		return s
	}})
	sdk.Register(sdk.QueueSort{Name: "Order", Key: func(p *sdk.QueuedPod) sdk.SortKey {
		if _, done := misbehave("queue-sort", p.Pod); done || wild("queue-sort", p.Pod) {
			return sdk.SortKey{Text: strings.Repeat("x", 1<<12)}
		}
		return sdk.SortKey{Number: -int64(p.Priority), Text: p.Name}
	}})
	sdk.Register(sdk.PreFilter{Name: "Narrow", Reads: []string{"Service"}, Narrow: func(c *sdk.Cluster, p *sdk.Pod) ([]*sdk.Node, sdk.Status) {
		if s, done := misbehave("pre-filter", p); done {
			return nil, s
		}
		if wild("pre-filter", p) {
			return []*sdk.Node{{Index: 1 << 31}}, sdk.Status{}
		}
		var even []*sdk.Node
		c.Nodes(func(n *sdk.Node) bool {
			if n.Index%2 == 0 {
				even = append(even, n)
			}
			return true
		})
		return even, sdk.Status{}
	}})
	sdk.Register(sdk.PostFilter{Name: "Nominate", Nominate: func(f *sdk.Failure) (sdk.Nomination, sdk.Status) {
		if s, done := misbehave("post-filter", f.Pod.Pod); done {
			return sdk.Nomination{}, s
		}
		if wild("post-filter", f.Pod.Pod) {
			return sdk.Nomination{Node: &sdk.Node{Index: 1 << 30}}, sdk.Status{}
		}
		last := f.Refused[len(f.Refused)-1]
		n := sdk.Nomination{Node: last.Node}
		for _, p := range last.Node.Pods {
			n.Victims = append(n.Victims, p)
		}
		if last.Plugin != "FitsCPU" || last.Reasons[0] != "Insufficient cpu" {
			return n, sdk.Refuse("refused by " + last.Plugin)
		}
		return n, sdk.Status{}
	}})
	sdk.Register(sdk.PreScore{Name: "Look", Look: func(_ *sdk.Cluster, p *sdk.Pod, nodes []*sdk.Node) sdk.Status {
		note("look " + strconv.Itoa(len(nodes)))
		s, _ := misbehave("pre-score", p)
		return s
	}})
	for _, name := range []string{"First", "Second"} {
		sdk.Register(sdk.Reserve{
			Name: name,
			Reserve: func(p *sdk.Placement) sdk.Status {
				note("reserve " + name + " " + p.NodeName)
				if name == "First" {
					return sdk.Status{}
				}
				s, _ := misbehave("reserve", p.Pod.Pod)
				return s
			},
			Unreserve: func(p *sdk.Placement) {
				note("unreserve " + name)
				_, _ = misbehave("unreserve", p.Pod.Pod)
			},
		})
	}
	sdk.Register(sdk.Permit{
		Name: "Hold",
		Permit: func(r *sdk.PermitRequest) sdk.Status {
			if wild("permit", r.Pod.Pod) {
				for range 5000 {
					r.Allow("nobody")
				}
				return sdk.Status{}
			}
			if s, done := misbehave("permit", r.Pod.Pod); done {
				return s
			}
			if r.Pod.Labels["wait"] != "" {
				return sdk.WaitFor(time.Minute)
			}
			for _, w := range r.Waiting {
				r.Allow(w.Pod.UID)
			}
			return sdk.Status{}
		},
		Review: func(r *sdk.ReviewRequest) {
			for _, w := range r.Waiting {
				if w.Since > 2*time.Minute {
					r.Reject(w.Pod.UID, "reviewed on "+w.Node.Name)
				}
			}
		},
	})
	sdk.Register(sdk.PreBind{Name: "Before", PreBind: func(b *sdk.Binding) sdk.Status {
		if b.Pod.Labels["bind"] == "patiently" {
			note("waits")
			<-b.Context.Done()
			note("called off")
			return sdk.Fail(b.Context.Err())
		}
		s, _ := misbehave("pre-bind", b.Pod.Pod)
		return s
	}})
	sdk.Register(sdk.Bind{Name: "Write", Bind: func(b *sdk.Binding) sdk.Status {
		if s, done := misbehave("bind", b.Pod.Pod); done {
			return s
		}
		b.Annotations = map[string]string{"example.com/bound-by": b.NodeName}
		if wild("bind", b.Pod.Pod) {
			b.Annotations["long"] = strings.Repeat("x", 1<<20)
		}
		switch b.Pod.Labels["bind"] {
		case "own":
			return sdk.Bound()
		case "skip":
			return sdk.Skipped()
		}
		return sdk.Status{}
	}})
	sdk.Register(sdk.PostBind{Name: "After", PostBind: func(b *sdk.Binding) {
		note("after " + b.NodeName)
		_, _ = misbehave("post-bind", b.Pod.Pod)
	}})
	sdk.Register(sdk.Predicate{Name: "Journal", Filter: func(*sdk.Request) sdk.Verdict {
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(journal, ", ")
		journal = nil
		return sdk.Unfit("journal: " + all)
	}})
}

func main() { sdk.Serve() }
